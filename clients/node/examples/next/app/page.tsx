// A form that calls the server action, with and without scripts.
import { sendMail } from "./actions";

interface Props {
  searchParams: Promise<{ text?: string }>;
}

export default async function Page({ searchParams }: Props) {
  const { text } = await searchParams;
  return (
    <form action={sendMail}>
      <input name="name" />
      <button>Send</button>
      <output>{text}</output>
    </form>
  );
}
