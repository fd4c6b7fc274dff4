import sys

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import PlainTextResponse

import hits

app = FastAPI()


@app.get("/hits")
async def show_hits():
    return hits.all()


@app.api_route("/auth/login", methods=["GET", "POST", "PUT", "PATCH", "DELETE"])
async def login(request: Request):
    body = hits.hit(
        request.cookies.get("session"),
        request.headers.get("x-api-key"),
        hits.bearer(request.headers.get("authorization")),
        request.query_params.get("user"),
    )
    return PlainTextResponse(body)


uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="error")
