import { converse } from '../conversation.mjs';
import { fakeServer, scenario } from '../workbench.mjs';

await scenario('conversation-fake', fakeServer(), converse);
