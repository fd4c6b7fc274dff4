"""Sends commands with redis-py and prints the replies as JSON."""

import json
import sys

import redis


def ask(url, version):
    client = redis.Redis.from_url(url, protocol=version, retry=None)
    key = f"redis-py-{version}"
    replies = [
        client.execute_command("CL.THROTTLE", key, 2, 1, 60),
        client.execute_command("cl.throttle", key, 2, 1, 60, 2),
        client.execute_command("CL.THROTTLE", key, 2, 1, 60),
        client.execute_command("TOLLGATE.CHECK", "api", key),
    ]

    pipeline = client.pipeline(transaction=False)
    for _ in range(3):
        pipeline.execute_command("RL.THROTTLE", f"{key}-pipeline", 1, 1, 60)
    replies.append([reply[0] for reply in pipeline.execute()])

    try:
        client.execute_command("CL.THROTTLE", key, "x", 1, 60)
    except redis.ResponseError as error:
        replies.append(str(error))
    client.close()
    return replies


print(json.dumps([ask(sys.argv[1], 2), ask(sys.argv[1], 3)]))
