// A server action with a limit by the address of the client.
"use server";
import { redirect } from "next/navigation";
import { limitAction } from "tollgate/next";
import { limiter } from "../limiter";

export const sendMail = limitAction(
  {
    client: limiter,
    limits: "mail",
    clientAddress: { proxyCount: 1 },
    onDenied: ({ problem }): void => show(problem.detail),
  },
  async (form: FormData): Promise<void> => {
    show(`Hello, ${String(form.get("name"))}!`); // send it
  },
);

function show(text: string): never {
  redirect(`/?text=${encodeURIComponent(text)}`);
}
