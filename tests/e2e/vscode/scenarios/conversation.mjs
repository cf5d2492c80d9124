// The whole conversation with the real server and a scripted model, and the way back of the files that it changed.
import fs from 'node:fs';
import path from 'node:path';
import { converse, SCRIPT } from '../conversation.mjs';
import { OTHER, REPLIES, restore } from '../restoring.mjs';
import { realServer, scenario } from '../workbench.mjs';

await scenario(
  'conversation',
  {
    make({ root, workspace }) {
      fs.writeFileSync(path.join(workspace, 'other.py'), OTHER);
      const script = path.join(root, 'script.json');
      fs.writeFileSync(script, JSON.stringify({ ...SCRIPT, replies: [...REPLIES, ...SCRIPT.replies] }));
      return realServer({ env: { INDUSAGI_SCRIPTED_MODEL: script } });
    },
  },
  async (window, kit) => {
    await converse(window, kit);
    await restore(window, kit);
  },
);
