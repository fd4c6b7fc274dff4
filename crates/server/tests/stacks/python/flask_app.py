import logging
import sys

from flask import Flask, jsonify, request

import hits

app = Flask(__name__)
logging.getLogger("werkzeug").setLevel(logging.ERROR)


@app.get("/hits")
def show_hits():
    return jsonify(hits.all())


@app.route("/auth/login", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
def login():
    return hits.hit(
        request.cookies.get("session"),
        request.headers.get("X-Api-Key"),
        hits.bearer(request.headers.get("Authorization")),
        request.args.get("user"),
    )


app.run(host="127.0.0.1", port=int(sys.argv[1]), threaded=True)
