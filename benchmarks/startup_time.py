"""Start-up time in seconds of `import lookalike` and of `lookalike --help`, each the best of several runs.

python benchmarks/startup_time.py
"""

import subprocess
import sys
import time


def best(*arguments: str, runs: int = 7) -> float:
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return min(times)


if __name__ == "__main__":
    bare = best("-c", "pass")
    print(f"python              {bare:.3f} s")
    print(f"import lookalike    {best('-c', 'import lookalike') - bare:.3f} s more   (limit 0.3)")
    print(f"lookalike --help    {best('-m', 'lookalike', '--help'):.3f} s in all (limit 0.6)")
