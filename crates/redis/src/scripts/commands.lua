-- Runs a command that reads; its error ends the request and nothing else in this call.
ask_server = ask_server or function(...)
  local answer = call(...)
  if type(answer) == 'table' and answer.err then
    failed = failed or answer.err
    return false
  end
  return answer
end
-- Runs a command that writes, unless one before it has failed: a request is written as a whole or not at all. What the
-- server may refuse, such as memory that it does not have, it refuses at the first. A key must never become empty between
-- two commands: it would be gone, and while its slot is on its way to another server it could not come back here.
put = put or function(...)
  return not failed and ask_server(...)
end
