/**
 * The server extension's REST paths as plain functions. Rule of this module: it holds no state, and
 * every failure leaves it as an `ApiError` whose message a person can read.
 */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import { ISnapshot } from './types';

/** Path of the API below the server's base URL. */
export const API_PATH = 'jupyter_gpupool/api/v1';

/** A refusal, in the words of the pool where it gave any. */
export class ApiError extends Error {
  /**
   * @param status - HTTP status; 0 when no answer came.
   * @param message - One sentence.
   * @param hint - The next step; may be empty.
   */
  constructor(
    readonly status: number,
    message: string,
    readonly hint = ''
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

/** Ask for the end of a lease, or for a request to leave the queue. */
export async function endLease(
  leaseId: string,
  reason: 'released' | 'cancelled',
  settings: ServerConnection.ISettings
): Promise<void> {
  const query = reason === 'cancelled' ? URLExt.objectToQueryString({ reason }) : '';
  await call(`leases/${encodeURIComponent(leaseId)}${query}`, { method: 'DELETE' }, settings);
}

/** List the snapshots of a notebook, newest first. */
export async function listSnapshots(
  path: string,
  settings: ServerConnection.ISettings
): Promise<ISnapshot[]> {
  const response = await call(`snapshots${URLExt.objectToQueryString({ path })}`, {}, settings);
  return (await response.json()) as ISnapshot[];
}

/** Ask whether the API is there at all; resolves to the HTTP status, 0 when no answer came. */
export async function probe(settings: ServerConnection.ISettings): Promise<number> {
  try {
    await call('pool', {}, settings);
    return 200;
  } catch (error) {
    return error instanceof ApiError ? error.status : 0;
  }
}

async function call(
  path: string,
  init: RequestInit,
  settings: ServerConnection.ISettings
): Promise<Response> {
  const url = URLExt.join(settings.baseUrl, API_PATH) + '/' + path;
  let response: Response;
  try {
    response = await ServerConnection.makeRequest(url, init, settings);
  } catch (error) {
    throw new ApiError(0, error instanceof Error ? error.message : String(error));
  }
  if (!response.ok) {
    throw await refusal(response);
  }
  return response;
}

async function refusal(response: Response): Promise<ApiError> {
  const fallback = `${response.status} ${response.statusText}`;
  try {
    const body: unknown = await response.json();
    const { message, hint } = body as { message?: unknown; hint?: unknown };
    return new ApiError(
      response.status,
      typeof message === 'string' && message ? message : fallback,
      typeof hint === 'string' ? hint : ''
    );
  } catch {
    return new ApiError(response.status, fallback);
  }
}
