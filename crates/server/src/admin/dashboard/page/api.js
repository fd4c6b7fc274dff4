// Requests to the admin API, with the token where one is required.

const TOKEN = 'tollgate-token';
let promptForToken = async () => null;

/** Registers the function that asks the user for the token. */
export function onTokenRequired(prompt) {
  promptForToken = prompt;
}

/** A response that is not a success; `problem` is its body. */
export class ApiError extends Error {
  constructor(status, problem) {
    super(problem.detail ?? `status ${status}`);
    this.status = status;
    this.problem = problem;
  }
}

async function send(path, options = {}) {
  for (let was_rejected = false; ; was_rejected = true) {
    const token = sessionStorage.getItem(TOKEN);
    const headers = token ? { authorization: `Bearer ${token}` } : {};
    const response = await fetch(path, { ...options, headers, cache: 'no-store', credentials: 'omit' });
    if (response.status !== 401) return response;

    sessionStorage.removeItem(TOKEN);
    sessionStorage.setItem(TOKEN, await promptForToken(was_rejected || token !== null));
  }
}

/** The body of a response as JSON. Throws an ApiError unless the request succeeds. */
export async function request(path, method = 'GET', body_value = undefined) {
  const response = await send(path, { method, body: body_value && JSON.stringify(body_value) });
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new ApiError(response.status, body);
  return body;
}

/**
 * Reads the event stream for as long as the page is open, and reconnects when the connection breaks.
 * `EventSource` would do that too, but it cannot send a token.
 */
export async function subscribe({ on_event, on_open, on_lost }) {
  for (let wait_ms = 500; ; wait_ms = Math.min(wait_ms * 2, 5000)) {
    try {
      const response = await send('/admin/events');
      if (!response.ok) throw new ApiError(response.status, await response.json().catch(() => ({})));
      on_open();
      wait_ms = 250;
      await read(response.body, on_event);
      on_lost('the service closed the connection');
    } catch (error) {
      on_lost(error instanceof ApiError ? error.message : 'the service does not respond');
    }
    await new Promise((resume) => setTimeout(resume, wait_ms));
  }
}

async function read(body, on_event) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;

    const events = (rest + value).split('\n\n');
    rest = events.pop();
    for (const text of events) {
      const [name, data] = text.split('\ndata: ');
      on_event(name.slice('event: '.length), JSON.parse(data));
    }
  }
}
