// Sends commands with ioredis and prints the replies as JSON.
const Redis = require("ioredis");

async function main(url) {
  const client = new Redis(url, { retryStrategy: () => null, maxRetriesPerRequest: 0 });
  const replies = [];
  replies.push(await client.call("CL.THROTTLE", "ioredis", 2, 1, 60));
  replies.push(await client.call("cl.throttle", "ioredis", 2, 1, 60, 2));
  replies.push(await client.call("CL.THROTTLE", "ioredis", 2, 1, 60));
  replies.push(await client.call("TOLLGATE.CHECK", "api", "ioredis"));

  const pipeline = client.pipeline();
  for (let call = 0; call < 3; call += 1) {
    pipeline.call("RL.THROTTLE", "ioredis-pipeline", 1, 1, 60);
  }
  replies.push((await pipeline.exec()).map(([, reply]) => reply[0]));
  replies.push(await client.call("CL.THROTTLE", "ioredis", "x", 1, 60).catch((error) => error.message));

  await client.quit();
  console.log(JSON.stringify(replies));
}

main(process.argv[2]);
