"""`@tool` says what to install; here nothing but the package is installed."""

from kimi_agent import tool

try:

    @tool
    def stock(item: str) -> int:
        return 12
except ImportError as error:
    print(str(error).partition(" (")[0])
