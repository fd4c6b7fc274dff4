/** Requests with `fetch`, for runtimes without Node's HTTP client. */
import type { Post } from "./http.js";

export function fetchPost(url: URL, headers: Record<string, string>): Post {
  const post: Post = async (body, trip) => {
    const abort = new AbortController();
    trip.abort = () => {
      abort.abort(new Error("aborted at the deadline"));
    };
    const response = await fetch(url, {
      method: "POST",
      headers,
      body,
      redirect: "manual",
      signal: abort.signal,
    });
    return { status: response.status, body: await response.text() };
  };
  post.close = () => {
    // The runtime owns the connections.
  };
  return post;
}
