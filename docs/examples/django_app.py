"""Bookings in a Django project with Django's own users: python django_app.py 8000

Sign in by HTTP Basic as grace@example.com (a customer) or ada@example.com, password "secret".
"""

import base64
import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import bookings
import django
import uvicorn
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import aauthenticate
from django.core.asgi import get_asgi_application
from django.core.management import call_command
from django.http import HttpRequest, JsonResponse
from django.urls import path
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods
from people import CUSTOMER, STAFF, add_people, find_actor

from staffbooking_adapters import sql_ports
from staffbooking_core import Ports, StaffbookingError, error_response
from staffbooking_worker.main import run_worker

URL = "sqlite+aiosqlite:///bookings.db"
settings.configure(
    SECRET_KEY="change me",
    ROOT_URLCONF=__name__,
    ALLOWED_HOSTS=["127.0.0.1"],
    INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes"],
    DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": "django.db"}},
)
django.setup()
opened: dict[str, Ports] = {}


def booking_view(method: str, call: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
    """A view for users of Django; staffbooking knows them by the same e-mail address."""

    @csrf_exempt  # Basic credentials, no cookies.
    @require_http_methods([method])
    async def view(request: HttpRequest, **place: int) -> JsonResponse:
        given = request.headers.get("Authorization", "").removeprefix("Basic ")
        try:
            email, _, password = base64.b64decode(given).decode().partition(":")
            user = await aauthenticate(request, username=email, password=password)
            if user is None:
                return JsonResponse({"error": "Sign in", "code": "sign_in"}, status=401)
            actor = await find_actor(opened["ports"], user.get_username())
            body = [json.loads(request.body)] if call is bookings.request else []
            return JsonResponse(await call(opened["ports"], actor, *body, **place))
        except ValueError:
            return JsonResponse({"error": "Not readable", "code": "malformed"}, status=400)
        except StaffbookingError as error:
            if (found := error_response(error)) is None:
                raise
            return JsonResponse(found[1], status=found[0])

    return view


urlpatterns = [
    path("bookings", booking_view("POST", bookings.request)),
    path("bookings/<int:booking_id>", booking_view("GET", bookings.read)),
    path("bookings/<int:booking_id>/accept", booking_view("POST", bookings.accept)),
    path("bookings/<int:booking_id>/pay", booking_view("POST", bookings.pay)),
    path("clock/<int:days>", booking_view("POST", bookings.move_clock)),
]


def add_django_users() -> None:
    from django.contrib.auth.models import User

    call_command("migrate", verbosity=0)
    for email in {CUSTOMER, STAFF} - {user.username for user in User.objects.all()}:
        User.objects.create_user(email, email, "secret")


async def main(port: int) -> None:
    stop = anyio.Event()
    await sync_to_async(add_django_users)()
    async with (
        sql_ports(URL, secret_keys=["change me"], migrate=True) as opened["ports"],
        anyio.create_task_group() as tasks,
    ):
        await add_people(opened["ports"])
        tasks.start_soon(run_worker, opened["ports"], stop)
        await uvicorn.Server(uvicorn.Config(get_asgi_application(), port=port)).serve()
        stop.set()


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]))
