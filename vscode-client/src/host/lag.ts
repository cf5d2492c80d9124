// How late the extension host's event loop comes to its work, for the report about the last run.
import { type IntervalHistogram, monitorEventLoopDelay } from 'node:perf_hooks';

const RESOLUTION_MS = 10;

export class Lag {
  private readonly histogram: IntervalHistogram = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  private running = false;

  /** Measures anew from the start of a run to its end. */
  follow(running: boolean): void {
    if (running === this.running) {
      return;
    }
    this.running = running;
    if (running) {
      this.histogram.reset();
      this.histogram.enable();
    } else {
      this.histogram.disable();
    }
  }

  /** The delay that 95 of 100 turns of the loop stayed below in the last run, in milliseconds. */
  get p95(): number {
    const delay = this.histogram.percentile(95) / 1e6 - RESOLUTION_MS;
    return Math.max(0, Math.round(delay * 10) / 10);
  }

  dispose(): void {
    this.histogram.disable();
  }
}
