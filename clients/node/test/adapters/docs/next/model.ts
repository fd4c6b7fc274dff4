/** In place of a language model. */
export async function* callModel(): AsyncGenerator<{ text: string; tokensSoFar: number }> {
  await Promise.resolve();
  yield { text: "one ", tokensSoFar: 3 };
  yield { text: "two", tokensSoFar: 7 };
}
