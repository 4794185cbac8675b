/**
 * The server extension's REST paths as plain functions. Rule of this module: it holds no state, and
 * every failure leaves it as an `ApiError` whose message a person can read.
 */
import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

import { IHistory, ILease, ISnapshot, IUsage, IWhy } from './types';

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

/** Read one lease, also for a while after it has ended. */
export async function getLease(
  leaseId: string,
  settings: ServerConnection.ISettings
): Promise<ILease> {
  return read<ILease>(`leases/${encodeURIComponent(leaseId)}`, settings);
}

/** Ask for another size; resolves when it is in force. Without a memory size it follows the compute. */
export async function resizeLease(
  leaseId: string,
  size: { readonly compute_milli: number; readonly memory_bytes: number | null },
  settings: ServerConnection.ISettings
): Promise<void> {
  const init = { method: 'PATCH', body: JSON.stringify(size) };
  await call(`leases/${encodeURIComponent(leaseId)}`, init, settings);
}

/** Have a lease not taken back, or let it be. */
export async function pinLease(
  leaseId: string,
  pinned: boolean,
  settings: ServerConnection.ISettings
): Promise<void> {
  const verb = pinned ? 'pin' : 'unpin';
  await call(`leases/${encodeURIComponent(leaseId)}/${verb}`, { method: 'POST' }, settings);
}

/** Ask why a lease is as it is, and when a request is probably granted. */
export async function whyLease(
  leaseId: string,
  settings: ServerConnection.ISettings
): Promise<IWhy> {
  return read<IWhy>(`leases/${encodeURIComponent(leaseId)}/why`, settings);
}

/** Read what everybody that this person may see has used; this person's own among them. */
export async function readUsage(settings: ServerConnection.ISettings): Promise<IUsage[]> {
  return read<IUsage[]>('usage', settings);
}

/** Read what the Jupyter server remembers of the pool's last hours. */
export async function readHistory(settings: ServerConnection.ISettings): Promise<IHistory> {
  return read<IHistory>('history', settings);
}

/** List all snapshots, newest first. */
export async function allSnapshots(settings: ServerConnection.ISettings): Promise<ISnapshot[]> {
  return read<ISnapshot[]>('snapshots', settings);
}

/** List the snapshots of a notebook, newest first. */
export async function listSnapshots(
  path: string,
  settings: ServerConnection.ISettings
): Promise<ISnapshot[]> {
  return read<ISnapshot[]>(`snapshots${URLExt.objectToQueryString({ path })}`, settings);
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

async function read<T>(path: string, settings: ServerConnection.ISettings): Promise<T> {
  return (await (await call(path, {}, settings)).json()) as T;
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
