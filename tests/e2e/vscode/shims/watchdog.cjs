// Stands in for the native module native-watchdog: ends this process when the watched one is gone.
'use strict';

exports.start = (pid) => {
  const timer = setInterval(() => {
    try {
      process.kill(pid, 0);
    } catch {
      process.exit(87);
    }
  }, 1000);
  timer.unref();
};

exports.exit = (code) => process.exit(code || 0);
