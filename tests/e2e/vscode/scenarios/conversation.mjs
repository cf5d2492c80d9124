// The whole conversation with the real server and a scripted model.
import fs from 'node:fs';
import path from 'node:path';
import { converse, SCRIPT } from '../conversation.mjs';
import { realServer, scenario } from '../workbench.mjs';

await scenario(
  'conversation',
  {
    make({ root }) {
      const script = path.join(root, 'script.json');
      fs.writeFileSync(script, JSON.stringify(SCRIPT));
      return realServer({ env: { INDUSAGI_SCRIPTED_MODEL: script } });
    },
  },
  converse,
);
