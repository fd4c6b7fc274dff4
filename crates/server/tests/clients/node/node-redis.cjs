// Sends commands with node-redis and prints the replies as JSON.
const { createClient } = require("redis");

async function ask(url, version) {
  const client = createClient({ url, RESP: version, socket: { reconnectStrategy: false } });
  await client.connect();
  const key = `node-redis-${version}`;
  const replies = [];
  replies.push(await client.sendCommand(["CL.THROTTLE", key, "2", "1", "60"]));
  replies.push(await client.sendCommand(["cl.throttle", key, "2", "1", "60", "2"]));
  replies.push(await client.sendCommand(["CL.THROTTLE", key, "2", "1", "60"]));
  replies.push(await client.sendCommand(["TOLLGATE.CHECK", "api", key]));

  // Commands of one tick are sent together.
  const calls = [1, 2, 3].map(() => client.sendCommand(["RL.THROTTLE", `${key}-pipeline`, "1", "1", "60"]));
  replies.push((await Promise.all(calls)).map((reply) => reply[0]));
  const wrong = client.sendCommand(["CL.THROTTLE", key, "x", "1", "60"]);
  replies.push(await wrong.catch((error) => error.message));

  await client.close();
  return replies;
}

async function main(url) {
  console.log(JSON.stringify([await ask(url, 2), await ask(url, 3)]));
}

main(process.argv[2]);
