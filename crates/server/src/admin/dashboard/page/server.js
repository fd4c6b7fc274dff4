// The one place that talks to the server: with a token where it wants one.

const TOKEN = 'tollgate-token';
let askForToken = async () => null;

/** Who asks the person for a token, when one is wanted. */
export function onTokenWanted(ask) {
  askForToken = ask;
}

export class Refusal extends Error {
  constructor(status, problem) {
    super(problem.detail ?? `status ${status}`);
    this.status = status;
    this.problem = problem;
  }
}

async function send(path, options = {}) {
  for (let was_wrong = false; ; was_wrong = true) {
    const token = sessionStorage.getItem(TOKEN);
    const headers = token ? { authorization: `Bearer ${token}` } : {};
    const response = await fetch(path, { ...options, headers, cache: 'no-store', credentials: 'omit' });
    if (response.status !== 401) return response;
    sessionStorage.removeItem(TOKEN);
    sessionStorage.setItem(TOKEN, await askForToken(was_wrong || token !== null));
  }
}

/** An answer as JSON; whatever is no success is a Refusal that says why. */
export async function ask(path, method = 'GET') {
  const response = await send(path, { method });
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refusal(response.status, body);
  return body;
}

/**
 * Listens for events for as long as the page is open. `EventSource` cannot send a token, so the stream is read here; what
 * it does beside that is to come back after the connection broke.
 */
export async function listen({ on_event, on_open, on_lost }) {
  for (let wait_ms = 500; ; wait_ms = Math.min(wait_ms * 2, 5000)) {
    try {
      const response = await send('/admin/events');
      if (!response.ok) throw new Refusal(response.status, await response.json().catch(() => ({})));
      on_open();
      wait_ms = 250;
      await read(response.body, on_event);
      on_lost('the service ended the connection');
    } catch (error) {
      on_lost(error instanceof Refusal ? error.message : 'the service does not answer');
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
