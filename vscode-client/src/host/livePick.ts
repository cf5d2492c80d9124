// A quick pick whose rows are fetched anew for what is typed.
import * as vscode from 'vscode';

/** Fetching at every key would be too often. */
const ASK_AFTER_MS = 150;

/** Lets the user choose one of the rows that `find` gives for what is typed; undefined when they let it be. */
export function liveQuickPick<Row extends vscode.QuickPickItem>(
  placeholder: string,
  find: (value: string) => Promise<Row[]>,
  buttons?: { pressed: (row: Row) => Promise<void>; failed: (reason: unknown) => void },
): Promise<Row | undefined> {
  return new Promise((resolve, reject) => {
    const pick = vscode.window.createQuickPick<Row>();
    let turn = 0;
    let timer: NodeJS.Timeout | undefined;
    pick.placeholder = placeholder;
    pick.matchOnDescription = true;
    pick.matchOnDetail = true;

    const search = async (): Promise<void> => {
      turn += 1;
      const mine = turn;
      pick.busy = true;
      try {
        const rows = await find(pick.value);
        if (mine === turn) {
          pick.items = rows;
        }
      } finally {
        if (mine === turn) {
          pick.busy = false;
        }
      }
    };
    const searchOrEnd = (): void => {
      search().catch((reason: unknown) => {
        reject(reason instanceof Error ? reason : new Error(String(reason)));
        pick.hide();
      });
    };
    pick.onDidChangeValue(() => {
      clearTimeout(timer);
      timer = setTimeout(searchOrEnd, ASK_AFTER_MS);
    });
    pick.onDidTriggerItemButton(({ item }) => {
      buttons?.pressed(item).then(searchOrEnd, (reason: unknown) => buttons.failed(reason));
    });
    pick.onDidAccept(() => {
      resolve(pick.selectedItems[0]);
      pick.hide();
    });
    pick.onDidHide(() => {
      clearTimeout(timer);
      turn += 1; // an answer that is still on its way has nobody left to see it
      resolve(undefined);
      pick.dispose();
    });
    pick.show();
    searchOrEnd();
  });
}
