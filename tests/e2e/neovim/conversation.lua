-- A whole conversation in Neovim, headless, through vim.lsp alone: ask and see the answer stream in, list, fork,
-- resume, condense and undo, remember, recall; and a client that knows no events, which gets $/progress instead.
--
--   nvim --headless --clean -l conversation.lua        SERVER (JSON list), WORKSPACE and OUT in the environment
local server = vim.json.decode(vim.env.SERVER)
local workspace = vim.env.WORKSPACE
local WAIT = 20000

local function say(text)
  io.stdout:write(text .. '\n')
end

local function wait(what, condition)
  assert(vim.wait(WAIT, condition, 10), 'timed out: ' .. what)
end

--- Starts a client; what arrives is gathered in the second result.
local function start(name, experimental)
  local got = { events = {}, progress = {}, status = {}, changed = 0 }
  local capabilities = vim.lsp.protocol.make_client_capabilities()
  capabilities.experimental = experimental
  local id = vim.lsp.start_client({
    name = name,
    cmd = server,
    root_dir = workspace,
    workspace_folders = { { uri = vim.uri_from_fname(workspace), name = 'work' } },
    capabilities = capabilities,
    init_options = { trusted = true },
    handlers = {
      ['indusagi/event'] = function(_, params)
        table.insert(got.events, params)
      end,
      ['indusagi/status'] = function(_, params)
        table.insert(got.status, params)
      end,
      ['indusagi/sessionsChanged'] = function()
        got.changed = got.changed + 1
      end,
      ['$/progress'] = function(_, params)
        table.insert(got.progress, params)
      end,
    },
  })
  assert(id, 'the client did not start')
  wait('initialize', function()
    local client = vim.lsp.get_client_by_id(id)
    return client ~= nil and client.initialized == true
  end)
  return vim.lsp.get_client_by_id(id), got
end

local function call(client, method, params)
  local failure, result, answered = nil, nil, false
  local sent = client:request(method, params, function(err, value)
    failure, result, answered = err, value, true
  end)
  assert(sent, method .. ' was not sent')
  wait(method, function()
    return answered
  end)
  return result, failure
end

local function ok(client, method, params)
  local result, failure = call(client, method, params)
  assert(failure == nil, method .. ': ' .. vim.inspect(failure))
  return result
end

local function text_of(turn)
  local parts = {}
  for _, block in ipairs(turn.blocks) do
    table.insert(parts, block.text or '')
  end
  return table.concat(parts, '\n')
end

local function conversation()
  local client, got = start('indusagi', { indusagi = { events = true, approvals = true } })
  local ours = client.server_capabilities.experimental.indusagi
  assert(ours.protocolVersion == 1, vim.inspect(ours))

  local session = ok(client, 'indusagi/session/new', vim.empty_dict())
  local function submit(text, run)
    return ok(client, 'indusagi/submit', { sessionId = session.id, text = text, runId = run })
  end
  local answer = submit('What is here?', 'run-1')
  assert(answer.phase == 'settled', vim.inspect(answer))
  local streamed, kinds, deltas = {}, {}, 0
  for index, params in ipairs(got.events) do
    assert(params.sessionId == session.id and params.runId == 'run-1', vim.inspect(params))
    if index > 1 then
      assert(params.seq == got.events[index - 1].seq + 1, 'the sequence has a gap')
    end
    kinds[params.event.kind] = true
    if params.event.kind == 'text_delta' then
      deltas = deltas + 1
      table.insert(streamed, params.event.delta)
    end
  end
  assert(table.concat(streamed) == 'There is one file in this folder, and it says hello.', vim.inspect(streamed))
  assert(kinds.run_started and kinds.settled and deltas > 1, vim.inspect(kinds))
  say('streamed in ' .. deltas .. ' deltas')

  submit('And what else?', 'run-2')
  local list = ok(client, 'indusagi/session/list', vim.empty_dict())
  assert(#list.sessions == 1 and list.sessions[1].id == session.id, vim.inspect(list))
  local view = ok(client, 'indusagi/resume', { sessionId = session.id })
  assert(#view.turns == 4, vim.inspect(view))
  assert(text_of(view.turns[2]):find('one file', 1, true), vim.inspect(view.turns[2]))
  say('listed and resumed')

  local fork = ok(client, 'indusagi/fork', { sessionId = session.id, node = view.turns[3].id, before = true })
  assert(fork.prefill:find('And what else?', 1, true), vim.inspect(fork))
  assert(fork.leaf == view.turns[2].id, vim.inspect(fork))
  submit('Say it another way.', 'run-3')
  local tree = ok(client, 'indusagi/session/tree', { sessionId = session.id })
  assert(#tree.leaves == 2, vim.inspect(tree))
  say('forked: two leaves')

  local back = ok(client, 'indusagi/resume', { sessionId = session.id, node = view.head })
  assert(back.head == view.head, vim.inspect(back.head))
  for round = 1, 7 do
    submit('Long words, please. ' .. round .. (' and on'):rep(100), 'long-' .. round)
  end
  local before = ok(client, 'indusagi/resume', { sessionId = session.id })
  local condensed = ok(client, 'indusagi/condense', { sessionId = session.id })
  assert(condensed.condensed and condensed.after < condensed.before, vim.inspect(condensed))
  local undone = ok(client, 'indusagi/condense/undo', { sessionId = session.id })
  assert(undone.leaf == before.head, vim.inspect(undone))
  say('condensed ' .. condensed.before .. ' -> ' .. condensed.after .. ', and undone')

  -- As a command: what is offered as a request is offered as a command too.
  local remembered = ok(client, 'workspace/executeCommand', {
    command = 'indusagi.server.memory/remember',
    arguments = { { text = 'The greeting lives in hello.txt.', tags = { 'greeting' } } },
  })
  assert(remembered.created, vim.inspect(remembered))
  local recalled = ok(client, 'indusagi/memory/recall', { text = 'greeting' })
  assert(#recalled.hits == 1 and recalled.hits[1].entry.content:find('hello.txt', 1, true), vim.inspect(recalled))
  say('remembered and recalled')

  local _, failure = call(client, 'indusagi/resume', { sessionId = 'nowhere' })
  assert(failure and failure.data.kind == 'session_not_found', vim.inspect(failure))
  assert(failure.data.hint ~= '' and not failure.message:find('Traceback', 1, true), vim.inspect(failure))

  client:stop()
  wait('stop', function()
    return client:is_stopped()
  end)
end

--- An editor that has never heard of us sees the run as progress.
local function plain()
  local client, got = start('plain', nil)
  local session = ok(client, 'indusagi/session/new', vim.empty_dict())
  local snapshot = ok(client, 'indusagi/submit', { sessionId = session.id, text = 'What is here?', workDoneToken = 'token-1' })
  assert(snapshot.phase == 'settled', vim.inspect(snapshot))
  assert(#got.events == 0, 'events were sent to a client that does not know them')
  local begun, ended = false, false
  for _, params in ipairs(got.progress) do
    begun = begun or params.value.kind == 'begin'
    ended = ended or params.value.kind == 'end'
  end
  assert(begun and ended, vim.inspect(got.progress))
  say('a plain client sees progress')
  client:stop()
  wait('stop', function()
    return client:is_stopped()
  end)
end

local passed, problem = xpcall(function()
  conversation()
  plain()
end, debug.traceback)
if passed then
  say('OK')
  vim.cmd('qa!')
else
  say('FAILED ' .. tostring(problem))
  vim.cmd('cquit 1')
end
