using Workerd = import "/workerd/workerd.capnp";

const config :Workerd.Config = (
  services = [
    (name = "main", worker = .cairn),
    (name = "workflows", worker = .workflows),
    (name = "disk", disk = (path = {{printf "%q" .Disk}}, writable = true)),
    {{if .Server}}(name = "server", external = (address = {{printf "%q" .Server}}, http = ())),{{end}}
  ],
  sockets = [ (name = "http", address = {{printf "%q" .Address}}, http = (), service = "main") ],
  extensions = [ (modules = [
    (name = "workflows", esModule = embed "wrapped-binding.js", internal = true),
    (name = "miniflare:zod", esModule = embed "zod.js"),
  ]) ],
);

const cairn :Workerd.Worker = (
  modules = [ {{range .Modules}}
    (name = {{base . | printf "%q"}}, esModule = embed {{printf "%q" .}}),{{end}}
  ],
  compatibilityDate = "2026-11-01",
  {{if .Server}}globalOutbound = "server",{{end}}
  bindings = [ {{range $name, $secret := .Secrets}}
    (name = "{{$name}}", text = {{printf "%q" $secret}}),{{end}}
    (name = "CAIRN_SERVER", text = "http://server"),
    (name = "TREES", durableObjectNamespace = "TreeObject"),
    (name = "DIRECTORIES", durableObjectNamespace = "DirectoryObject"),
    {{if .Front}}(name = "SERVERS", durableObjectNamespace = "ServerObject"),{{end}}
    (name = "RUNS", wrapped = (moduleName = "workflows", innerBindings = [
      (name = "binding", service = (name = "workflows", entrypoint = "WorkflowBinding")) ])),
  ],
  durableObjectNamespaces = [
    (className = "TreeObject", uniqueKey = "trees", enableSql = true),
    (className = "DirectoryObject", uniqueKey = "directories", enableSql = true),
    (className = "ServerObject", uniqueKey = "servers", enableSql = true),
  ],
  durableObjectStorage = (localDisk = "disk"),
);

const workflows :Workerd.Worker = (
  modules = [ (name = "workflows.js", esModule = embed "binding.js") ],
  compatibilityDate = "2024-10-22",
  compatibilityFlags = ["experimental"],
  bindings = [
    (name = "ENGINE", durableObjectNamespace = "Engine"),
    (name = "USER_WORKFLOW", service = (name = "main", entrypoint = "RunWorkflow")),
    (name = "BINDING_NAME", json = "\"RUNS\""),
    (name = "WORKFLOW_NAME", json = "\"cairn-runs\""),
  ],
  durableObjectNamespaces = [ (className = "Engine", uniqueKey = "miniflare-workflows-cairn-runs", enableSql = true, preventEviction = true) ],
  durableObjectStorage = (localDisk = "disk"),
);
