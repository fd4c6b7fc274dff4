import logging
import sys

from django.conf import settings

settings.configure(ALLOWED_HOSTS=["*"], ROOT_URLCONF=__name__, LOGGING_CONFIG=None)

import django
from django.core.servers.basehttp import run
from django.core.wsgi import get_wsgi_application
from django.http import HttpResponse, JsonResponse
from django.urls import path

import hits


def show_hits(request):
    return JsonResponse(hits.all())


def login(request):
    body = hits.hit(
        request.COOKIES.get("session"),
        request.headers.get("X-Api-Key"),
        hits.bearer(request.headers.get("Authorization")),
        request.GET.get("user"),
    )
    return HttpResponse(body, content_type="text/plain")


urlpatterns = [path("hits", show_hits), path("auth/login", login)]

logging.disable(logging.CRITICAL)
django.setup()
run("127.0.0.1", int(sys.argv[1]), get_wsgi_application(), threading=True)
