// app/actions.ts
"use server";
import { limitAction } from "../../../../src/adapters/next.js";
import { client, clientAddress } from "./limiter.js";

export const sendMail = limitAction(
  {
    client,
    clientAddress,
    limits: "mail",
    onDenied: ({ problem }): { message: string } => ({ message: problem.detail }),
  },
  async (form: FormData) => {
    await Promise.resolve(form.get("text")); // send it
    return { message: "Sent." };
  },
);
