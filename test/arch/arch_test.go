// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package arch holds the architecture rules as data: which imports are forbidden, and why. Its
// tests compare them with the code, and also fail when a rule names something that no longer
// exists.
package arch

// module is the prefix of every import path of ours.
const module = "github.com/leatdev/leat"

// A rule forbids packages to import others.
type rule struct {
	// from are patterns of the importing packages. Our paths are relative to the module prefix.
	from []string
	// except are packages that from matches but the rule does not cover.
	except []string
	// forbidden are patterns of packages that must not be imported. Ours begin with "./".
	forbidden []string
	// linked applies the rule to everything in the binary, not only to direct imports.
	linked bool
	// why is printed with a violation.
	why string
}

// Vendors whose types must not leak into a domain core.
var (
	wire       = []string{"./gen/...", "connectrpc.com/connect/...", "google.golang.org/grpc/..."}
	redis      = []string{"github.com/redis/go-redis/..."}
	git        = []string{"github.com/go-git/go-git/..."}
	registries = []string{"oras.land/oras-go/v2/...", "github.com/opencontainers/image-spec/...", "github.com/opencontainers/go-digest/..."}
	kubernetes = []string{"k8s.io/client-go/..."}
	drivers    = []string{"github.com/uptrace/bun/...", "modernc.org/sqlite/...", "github.com/jackc/pgx/..."}
)

// cores are the packages that hold the domain: values in, values out.
var cores = []string{
	"services/gitcache/internal/mirror", "services/gitcache/internal/mirroring/...", "services/gitcache/internal/snapshot", "services/gitcache/internal/content",
	"services/gitcache/internal/lfs", "services/gitcache/internal/gitconfig", "services/gitcache/internal/submodule",
	"internal/rendezvous", "services/gitcache/internal/selection", "services/gitcache/internal/provenance", "services/gitcache/internal/artifact",
	"services/gitcache/internal/pack", "services/gitcache/internal/history", "services/gitcache/internal/store", "services/gitcache/internal/memory",
	"services/gitcache/internal/chartindex", "services/gitcache/internal/chartdep", "services/gitcache/internal/attestation",
	"services/distributor/internal/authz", "services/distributor/internal/catalog", "services/distributor/internal/plan", "services/distributor/internal/fanout",
	"services/distributor/internal/resolve", "services/distributor/internal/fleet", "services/distributor/internal/admission",
	"services/distributor/internal/session", "services/distributor/internal/trust", "services/distributor/internal/configs", "services/distributor/internal/layers", "services/distributor/internal/intake", "services/distributor/internal/encodings",
	"services/distributor/internal/lookup", "services/distributor/internal/rotation",
	"services/distributor/internal/bundles", "services/distributor/internal/scratch", "services/distributor/internal/setmap",
	"services/tunnel/internal/session", "services/tunnel/internal/policy",
	"services/tunnel/internal/relay", "services/tunnel/internal/receptive",
	"services/tunnel/internal/kubeapi",
	"services/tunnel/internal/fanin", "services/tunnel/internal/quota",
	"services/agent/internal/accounts", "services/agent/internal/confine", "services/agent/internal/reconcile", "services/agent/internal/inventory", "services/agent/internal/health",
	"render", "services/agent/internal/fingerprint", "services/agent/internal/order",
	"internal/window", "services/distributor/internal/rollout", "services/agent/internal/fields", "services/agent/internal/overview",
	"internal/syncpolicy", "internal/renderstep", "internal/accessrule", "internal/upstream",
}

var rules = []rule{
	{
		from:      []string{"gen/..."},
		forbidden: []string{"./internal/...", "./services/...", "./cli/..."},
		why:       "gen is the public contract; it stands alone",
	},
	{
		from:      []string{"internal/..."},
		forbidden: []string{"./services/...", "./cli/...", "./render/..."},
		why:       "rings point inward: the shared runtime knows no service, and links no renderer",
	},
	{
		from:      []string{"render/..."},
		forbidden: join([]string{"./services/...", "./cli/...", "./gen/..."}, git, kubernetes),
		why:       "the command line renders as agents do: without a service and without a cluster",
	},
	{
		from:      []string{"services/gitcache/...", "services/tunnel/..."},
		forbidden: []string{"./render/..."},
		why:       "gitcache and the tunnel render nothing, and link no renderer",
	},
	{
		from:      []string{"internal/..."},
		except:    []string{"internal/lease/leaseredis", "internal/redisconn", "internal/testkit/redistest"},
		forbidden: redis,
		why:       "Redis stays behind ports, so that everything else runs without it",
	},
	{
		from:      []string{"internal/..."},
		forbidden: join(git, kubernetes),
		why:       "every deployable links the shared runtime; go-git and client-go are too heavy for all of them",
	},
	{
		from:      cores,
		forbidden: join(wire, redis, git, kubernetes, drivers, []string{"database/sql"}),
		why:       "a domain core is testable with values; adapters bring the outside world to it",
	},
	{
		from:      []string{"services/...", "internal/...", "cli/...", "render/..."},
		except:    []string{"services/gitcache/internal/ociregistry"},
		forbidden: registries,
		why:       "one adapter talks to OCI registries",
	},
	{
		from:      cores,
		except:    []string{"services/tunnel/internal/session", "services/tunnel/internal/relay", "services/tunnel/internal/fanin"},
		forbidden: []string{"net/http"},
		why:       "only the tunnel's domain is HTTP itself",
	},
	{
		from:      []string{"services/gitcache/..."},
		forbidden: []string{"./services/distributor/...", "./services/tunnel/...", "./services/agent/..."},
		why:       "services meet in proto, never in Go",
	},
	{
		from:      []string{"services/distributor/..."},
		forbidden: []string{"./services/gitcache/...", "./services/tunnel/...", "./services/agent/..."},
		why:       "services meet in proto, never in Go",
	},
	{
		from:      []string{"services/tunnel/..."},
		forbidden: []string{"./services/gitcache/...", "./services/distributor/...", "./services/agent/..."},
		why:       "services meet in proto, never in Go",
	},
	{
		from:      []string{"services/agent/..."},
		forbidden: []string{"./services/gitcache/...", "./services/distributor/...", "./services/tunnel/..."},
		why:       "services meet in proto, never in Go",
	},
	{
		from:      []string{"services/distributor/...", "services/agent/..."},
		forbidden: redis,
		why:       "gitcache and the tunnel share leases, events and routes in Redis; the others hear of events by RPC",
	},
	{
		from:      []string{"services/tunnel/..."},
		except:    []string{"services/tunnel/internal/redisroute"},
		forbidden: redis,
		why:       "the tunnel knows Redis as a store of routes, behind the port that relay has for it",
	},
	{
		from: []string{"services/gitcache/internal/api", "services/gitcache/internal/webhook"},
		forbidden: join(redis, git, []string{
			"./services/gitcache/internal/backend", "./services/gitcache/internal/gogit", "./services/gitcache/internal/gitbin",
			"./services/gitcache/internal/store", "./services/gitcache/internal/uploadpack", "./services/gitcache/internal/uploadpack/route",
			"./services/gitcache/internal/redisregistry", "./services/gitcache/internal/redisevents",
			"./services/gitcache/internal/redispeers", "./services/gitcache/internal/redisdeliveries",
			"./services/gitcache/internal/replicas", "./services/gitcache/internal/lfshttp",
			"./services/gitcache/internal/artifactstore", "./services/gitcache/internal/kinds", "./services/gitcache/internal/helmrepo", "./services/gitcache/internal/ociregistry",
			"./services/gitcache/internal/cloudlogin",
		}),
		why: "the edge must not know the store",
	},
	{
		from: []string{"services/distributor/internal/api/...", "services/distributor/internal/bundlehttp", "services/distributor/internal/loginpages"},
		forbidden: join(drivers, []string{
			"database/sql", "./services/distributor/internal/sqlstore", "./services/distributor/internal/gitsource", "./services/distributor/internal/oidclogin",
		}),
		why: "the edge must not know the store",
	},
	{
		from:      []string{"services/agent/internal/api"},
		forbidden: join(kubernetes, []string{"./services/agent/internal/kube", "./services/agent/internal/control"}),
		why:       "the edge must not know the cluster's client",
	},
	{
		from:      []string{"services/...", "internal/...", "cli/..."},
		except:    []string{"services/distributor/internal/oidclogin"},
		forbidden: []string{"github.com/coreos/go-oidc/v3/...", "golang.org/x/oauth2"},
		why:       "one adapter talks to identity providers",
	},
	{
		from:      []string{"services/gitcache/cmd/gitcache"},
		forbidden: kubernetes,
		linked:    true,
		why:       "gitcache speaks Git, not Kubernetes; client-go would triple its size",
	},
	{
		from:      []string{"services/agent/cmd/agent"},
		forbidden: join(git, redis, drivers),
		linked:    true,
		why:       "the agent is thin: content comes by digest over HTTP, never from Git",
	},
	{
		from:      []string{"services/distributor/cmd/distributor"},
		forbidden: join(git, redis, kubernetes),
		linked:    true,
		why:       "the distributor asks gitcache by RPC, and holds no cluster credentials",
	},
	{
		from:      []string{"services/tunnel/cmd/tunnel"},
		forbidden: join(git, kubernetes, drivers),
		linked:    true,
		why:       "the tunnel forwards HTTP; it keeps nothing, and holds no cluster credentials",
	},
}

// orderedRooms are the packages with ordered files; see TestCallsRunOneWay.
var orderedRooms = []string{
	"services/agent/internal/reconcile/...", "services/agent/internal/fields", "services/agent/internal/kube",
	"services/agent/internal/control", "services/agent/internal/inventory", "services/agent/internal/health",
	"services/distributor/internal/api/...", "services/distributor/internal/fleet", "services/distributor/internal/bundles",
	"services/distributor/internal/catalog", "services/distributor/internal/sqlstore",
	"services/gitcache/internal/pack", "services/gitcache/internal/history", "services/gitcache/internal/gitbin", "services/gitcache/internal/gogit",
	"services/gitcache/internal/mirror", "services/gitcache/internal/mirroring/...", "services/gitcache/internal/webhook",
	"services/gitcache/internal/store", "services/gitcache/internal/uploadpack/...",
	"services/gitcache/internal/backend", "services/gitcache/internal/chartindex", "services/gitcache/internal/helmrepo", "services/gitcache/internal/cloudlogin",
	"services/tunnel", "services/tunnel/internal/...",
	"internal/bundle", "internal/h2", "internal/cas/casdisk", "internal/identity", "internal/rpc", "internal/cloud",
}

// wideTypes are the types that may exceed the limits of TestTypesAreSmall, each with its reason.
var wideTypes = map[string]string{
	"services/agent.Config":                               "a configuration: one field per flag",
	"services/gitcache.Config":                            "a configuration: one field per flag",
	"services/tunnel.Config":                              "a configuration: one field per flag",
	"services/distributor/internal/api/people.Service":    "one method per RPC",
	"services/distributor/internal/catalog.ServiceReport": "a wire record",
	"cli/internal/up.up":                                  "to be taken apart",
}

// join concatenates patterns.
func join(lists ...[]string) []string {
	var all []string
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}
