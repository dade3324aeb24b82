import subprocess
import sys

# the block


if __name__ == "__main__":
    for mode in ("once", "none"):
        subprocess.run([sys.executable, "-m", "pytest", "-q", f"--kimi-record={mode}", __file__], check=True)
