export default function Page() {
  return <p>Try /api/hello</p>;
}
