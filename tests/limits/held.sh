#!/bin/sh
# held.sh FIFO WAY AGENT…: becomes the agent, with a descendant in its process group. Both hold the pipe FIFO open:
# its reader sees the end when all such agents and all their descendants are gone.
exec 9>"$1"
case $2 in
  plain) sleep 1000000 </dev/null >/dev/null 2>&1 & ;;
  # Neither the end of its input nor TERM ends it.
  stubborn) (trap '' TERM HUP; exec sleep 1000000) </dev/null >/dev/null 2>&1 & ;;
  none) ;;
esac
shift 2
exec "$@"
