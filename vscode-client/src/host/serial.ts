// Restarts come from many sides at once (a command, a setting, trust, a crash): one runs, at most one waits.

export class OneAtATime {
  private current: Promise<void> | undefined;
  private queued: Promise<void> | undefined;

  constructor(private readonly work: () => Promise<void>) {}

  /** Runs the work; while it runs, every further call is answered by one more run after it. */
  run(): Promise<void> {
    if (this.current === undefined) {
      this.current = this.work().finally(() => {
        this.current = undefined;
      });
      return this.current;
    }
    this.queued ??= this.current
      .catch(() => undefined)
      .then(() => {
        this.queued = undefined;
        return this.run();
      });
    return this.queued;
  }

  /** Resolves when nothing runs or waits, whatever came of it. */
  async idle(): Promise<void> {
    while (this.current !== undefined || this.queued !== undefined) {
      await (this.queued ?? this.current)?.catch(() => undefined);
    }
  }
}

/** Does it the quick way, and where that fails, for whatever reason, the thorough way. */
export async function orElse(quick: () => Promise<unknown>, thorough: () => Promise<void>): Promise<void> {
  try {
    await quick();
  } catch {
    await thorough();
  }
}
