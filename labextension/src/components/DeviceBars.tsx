/**
 * A device's two dimensions as bars, each with a text alternative.
 */
import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { bytes, bytesOf, share } from '../format';
import { IPiece } from '../select';
import { IDevice } from '../types';
import { ISegment, SegmentBar } from './SegmentBar';

interface IBarProps {
  readonly device: IDevice;
  readonly pieces: readonly IPiece[];
  readonly trans: TranslationBundle;
}

/** What is leased of a device's compute. */
export const ComputeBar = React.memo(function ComputeBar(props: IBarProps): JSX.Element {
  const { device, pieces, trans } = props;
  const free = device.whole_only
    ? device.free_compute_milli > 0
      ? trans.__('free, as a whole')
      : trans.__('taken')
    : trans.__('%1 of 1 free', share(device.free_compute_milli));
  const segments = pieces.map((piece): ISegment => ({
    ...common(piece),
    fraction: piece.compute_milli / 1000,
    title: pieceText(share(piece.compute_milli), piece, trans)
  }));
  return <Bar name={trans.__('Compute')} free={free} segments={segments} trans={trans} />;
}, isSame);

/** What is leased of a device's memory, and what others use of it. */
export const MemoryBar = React.memo(function MemoryBar(props: IBarProps): JSX.Element {
  const { device, pieces, trans } = props;
  const total = device.memory_bytes;
  const free = trans.__('%1 free', bytesOf(device.free_memory_bytes, total, trans));
  const segments = pieces.map((piece): ISegment => ({
    ...common(piece),
    fraction: piece.memory_bytes / total,
    title: pieceText(bytes(piece.memory_bytes), piece, trans)
  }));
  if (device.unmanaged_bytes) {
    segments.push({
      key: 'unmanaged',
      fraction: device.unmanaged_bytes / total,
      tone: 'unmanaged',
      title: trans.__('%1: used by processes without a lease', bytes(device.unmanaged_bytes))
    });
  }
  return <Bar name={trans.__('Memory')} free={free} segments={segments} trans={trans} />;
}, isSame);

/** A device's readings change each second, what is leased of it seldom: bars show the latter only. */
function isSame(before: IBarProps, after: IBarProps): boolean {
  const [old, now] = [before.device, after.device];
  return (
    before.pieces === after.pieces &&
    before.trans === after.trans &&
    old.free_compute_milli === now.free_compute_milli &&
    old.free_memory_bytes === now.free_memory_bytes &&
    old.unmanaged_bytes === now.unmanaged_bytes
  );
}

/** What is free of a device's compute, in a few characters. */
export function freeCompute(device: IDevice, trans: TranslationBundle): string {
  if (device.whole_only) {
    return device.free_compute_milli > 0 ? trans.__('free') : trans.__('taken');
  }
  return trans.__('%1 free', share(device.free_compute_milli));
}

function common(piece: IPiece): Pick<ISegment, 'key' | 'tone' | 'isIdle'> {
  return { key: piece.id, tone: piece.mine ? 'mine' : 'other', isIdle: piece.idle };
}

function pieceText(size: string, piece: IPiece, trans: TranslationBundle): string {
  const whose = piece.mine ? trans.__('mine') : piece.owner || trans.__('somebody else');
  return piece.idle ? trans.__('%1: %2, idle', size, whose) : trans.__('%1: %2', size, whose);
}

function Bar(props: {
  readonly name: string;
  readonly free: string;
  readonly segments: readonly ISegment[];
  readonly trans: TranslationBundle;
}): JSX.Element {
  const { name, free, segments, trans } = props;
  const parts = segments.map(segment => segment.title).join('; ');
  const label = parts
    ? trans.__('%1: %2. Taken: %3.', name, free, parts)
    : trans.__('%1: %2.', name, free);
  return <SegmentBar label={label} segments={segments} />;
}
