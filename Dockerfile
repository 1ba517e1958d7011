# Lookalike as a service: see docs/howto/docker.md. Extras: docker build --build-arg EXTRAS='[large,heic]' .
FROM python:3.11-slim AS build
ARG EXTRAS=""
WORKDIR /build
COPY LICENSE README-pypi.md pyproject.toml requirements.txt ./
COPY src src
# The versions of the lock file, without its hashes: pip cannot check the hash of a local folder.
RUN grep -oE '^[A-Za-z0-9._-]+==[^\\]+' requirements.txt > constraints.txt \
    && python -m venv /opt/lookalike \
    && /opt/lookalike/bin/pip install --no-cache-dir --constraint constraints.txt ".${EXTRAS}"

FROM python:3.11-slim
RUN useradd --system --uid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin lookalike \
    && install --directory --owner=lookalike --mode=0700 /data
COPY --from=build /opt/lookalike /opt/lookalike
# The root file system can be read-only: only /data and /tmp are written.
ENV PATH="/opt/lookalike/bin:$PATH" \
    LOOKALIKE_COLLECTION=/data/photos.lookalike \
    NUMBA_CACHE_DIR=/tmp/numba
USER 10001
VOLUME /data
EXPOSE 8321
HEALTHCHECK --start-period=60s --interval=30s --timeout=5s CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8321/healthz', timeout=4)"]
ENTRYPOINT ["lookalike"]
CMD ["serve", "--host", "0.0.0.0", "--root", "/pictures"]
