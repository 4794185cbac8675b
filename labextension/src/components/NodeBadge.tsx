/**
 * What a machine is good for, where it takes no leases: away, draining or drained, and why.
 */
import * as React from 'react';

import { about } from '../format';
import { INode, NodeState } from '../types';
import { IEnv } from './view';

/** A word for a machine that takes no leases; nothing for one that does. */
export function NodeBadge(props: { readonly node: INode; readonly env: IEnv }): JSX.Element | null {
  const { node, env } = props;
  if (stateOf(node) === 'ready') {
    return null;
  }
  return (
    <span className="jp-GPUPool-badge jp-mod-warn" title={reason(node, env)}>
      {word(node, env)}
    </span>
  );
}

/** What it is good for; a pool of an earlier version says only whether its agent is connected. */
export function stateOf(node: INode): NodeState {
  return node.state ?? (node.connected ? 'ready' : 'away');
}

function word(node: INode, env: IEnv): string {
  switch (stateOf(node)) {
    case 'draining':
      return env.trans.__('draining');
    case 'drained':
      return env.trans.__('drained');
    default:
      return env.trans.__('away');
  }
}

/** Why, and what becomes of the leases that are there. */
function reason(node: INode, env: IEnv): string {
  if (stateOf(node) === 'away') {
    return env.trans.__('Its agent is not connected.');
  }
  const none = env.trans.__('An administrator drains it: it takes no new leases.');
  const end =
    node.state === 'draining' && node.drain_seconds !== null
      ? env.trans.__('Leases on it end in %1.', about(node.drain_seconds, env.trans))
      : '';
  return [node.drain_message, none, end].filter(Boolean).join(' ');
}
