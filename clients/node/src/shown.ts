/** A value for an error message, at most 80 characters of it. */
export function shown(value: unknown): string {
  let text: string | undefined;
  try {
    text = typeof value === "bigint" ? `${value}n` : JSON.stringify(value);
  } catch {
    // A value that JSON cannot contain, such as a cycle.
  }
  if (typeof value === "number") text = String(value);
  text ??= String(value);
  return text.length > 80 ? `${text.slice(0, 77)}...` : text;
}
