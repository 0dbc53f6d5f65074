// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package arch holds the architecture rules as data: which imports are forbidden, and why. Its
// tests compare them with the code, and also fail when a rule names something that no longer
// exists.
package arch

import "slices"

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

// domains are the packages that hold the domain, values in and values out, by their place: everything in a service but
// its edges.
var domains = []string{
	"services/gitcache/internal/...", "services/distributor/internal/...", "services/tunnel/internal/...", "services/agent/internal/...",
	"render", "internal/kit/rendezvous", "internal/contract/window", "internal/contract/syncpolicy", "internal/contract/renderstep", "internal/contract/accessrule", "internal/contract/upstream",
	"internal/contract/configref",
}

// edges are the packages of services that may know the outside world: APIs, and adapters of ports. A package that is in
// no list is a domain.
var edges = []string{
	"services/agent/internal/api",
	"services/agent/internal/carrier",
	"services/agent/internal/control",
	"services/agent/internal/kube",
	"services/agent/internal/reception",
	"services/agent/internal/uplink",
	"services/agent/internal/wire",
	"services/distributor/internal/api/agents",
	"services/distributor/internal/api/backendhook",
	"services/distributor/internal/api/bundlehttp",
	"services/distributor/internal/api/codec",
	"services/distributor/internal/api/hub",
	"services/distributor/internal/api/people",
	"services/distributor/internal/api/recorder",
	"services/distributor/internal/api/sessions",
	"services/distributor/internal/api/wire",
	"services/distributor/internal/delivery/gitsource",
	"services/distributor/internal/spine/catalogwire",
	"services/distributor/internal/sqlstore",
	"services/gitcache/internal/api",
	"services/gitcache/internal/api/replica",
	"services/gitcache/internal/api/wire",
	"services/gitcache/internal/forward",
	"services/gitcache/internal/gogit",
	"services/gitcache/internal/redisdeliveries",
	"services/gitcache/internal/redisevents",
	"services/gitcache/internal/redispeers",
	"services/gitcache/internal/redisregistry",
	"services/gitcache/internal/replicas",
	"services/gitcache/internal/uploadpack",
	"services/gitcache/internal/uploadpack/route",
	"services/gitcache/internal/webhook",
	"services/tunnel/internal/access",
	"services/tunnel/internal/agenttest",
	"services/tunnel/internal/api",
	"services/tunnel/internal/dialout",
	"services/tunnel/internal/kubeproxy",
	"services/tunnel/internal/redisroute",
	"services/tunnel/internal/reverse",
}

// speakers know HTTP, and no wire, driver or client: pages, and what reads over HTTP by hand. In the tunnel, HTTP is the
// domain itself.
var speakers = []string{
	"services/agent/internal/kube/watch",
	"services/agent/internal/prometheus",
	"services/distributor/internal/access/loginpages",
	"services/distributor/internal/access/oidclogin",
	"services/distributor/internal/access/tokenexchange",
	"services/distributor/internal/config/backendcall",
	"services/distributor/internal/config/cloudvalues",
	"services/distributor/internal/config/httpvalues",
	"services/distributor/internal/config/kubevalues",
	"services/distributor/internal/config/vaultkv",
	"services/distributor/internal/keys/keyroot",
	"services/distributor/internal/notify/notifysink",
	"services/distributor/internal/spine/journal",
	"services/distributor/internal/ui",
	"services/gitcache/internal/backend",
	"services/gitcache/internal/cloudlogin",
	"services/gitcache/internal/forge",
	"services/gitcache/internal/githubapp",
	"services/gitcache/internal/helmrepo",
	"services/gitcache/internal/hostgate",
	"services/gitcache/internal/lfshttp",
	"services/gitcache/internal/ociregistry",
	"services/gitcache/internal/ociregistry/registryauth",
	"services/gitcache/internal/webhook/provider",
	"services/tunnel/internal/fanin",
	"services/tunnel/internal/hop",
	"services/tunnel/internal/recording",
	"services/tunnel/internal/relay",
	"services/tunnel/internal/session",
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
		except:    []string{"internal/kit/lease/leaseredis", "internal/runtime/redisconn", "internal/testkit/redistest"},
		forbidden: redis,
		why:       "Redis stays behind ports, so that everything else runs without it",
	},
	{
		from:      []string{"internal/..."},
		forbidden: join(git, kubernetes),
		why:       "every deployable links the shared runtime; go-git and client-go are too heavy for all of them",
	},
	{
		from:      domains,
		except:    edges,
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
		from:      domains,
		except:    join(edges, speakers),
		forbidden: []string{"net/http"},
		why:       "a domain is testable without servers",
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
		from: []string{"services/gitcache/internal/api/...", "services/gitcache/internal/webhook/..."},
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
	floor("every wing stands on the spine, which knows none of them; what a rollout decides is a value of its policy", "spine", "rollout"),
	floor("who may do what is decided about objects alone", "access"),
	floor("configuration is composed of sets and back ends, whatever they are delivered to", "config"),
	floor("messages are about events of the spine", "notify"),
	floor("keys seal and sign bytes", "keys"),
	floor("what is delivered is composed of configuration", "delivery", "config"),
	floor("waves are about what is delivered", "rollout", "delivery"),
	floor("fleet sources are read from what is delivered", "fleetgit", "delivery"),
	floor("the store implements the ports of wings, and knows neither the view nor the calls", "sqlstore",
		"access", "config", "delivery", "rollout", "notify", "fleetgit", "keys"),
	floor("the view serves the ports of wings, and knows neither the store nor the calls", "fleet",
		"access", "config", "delivery", "rollout", "notify", "fleetgit", "keys", "find", "problems"),
	floor("searches are about rows that they are given", "find", "access"),
	floor("problems are those of rows", "problems", "rollout", "find"),
	floor("the web UI is files and headers, and calls the hub from the browser", "ui"),
	floor("states come from ports of wings", "standing", "config", "rollout", "notify", "fleetgit", "problems"),
	{
		from: []string{"services/distributor/internal/api/...", "services/distributor/internal/access/loginpages"},
		forbidden: join(drivers, []string{
			"database/sql", "./services/distributor/internal/sqlstore", "./services/distributor/internal/delivery/gitsource", "./services/distributor/internal/access/oidclogin",
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
		except:    []string{"services/distributor/internal/access/oidclogin"},
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
		from:      []string{"internal/kit/..."},
		forbidden: []string{"./internal/contract/...", "./internal/runtime/...", "./gen/..."},
		why:       "tools know nothing of Leat",
	},
	{
		from:      []string{"internal/contract/..."},
		forbidden: []string{"./internal/runtime/..."},
		why:       "the words and forms that programs share do not depend on how a program runs",
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

// wideTypes are the types that may exceed the limits of TestTypesAreSmall, each with its reason.
var wideTypes = map[string]string{
	"services/agent.Config":                                     "a configuration: one field per flag",
	"services/gitcache.Config":                                  "a configuration: one field per flag",
	"services/tunnel.Config":                                    "a configuration: one field per flag",
	"services/distributor/internal/api/people.Service":          "one method per RPC",
	"services/distributor/internal/spine/catalog.ServiceReport": "a wire record",
}

// floor is the rule of one part of the distributor: it may import the spine and the named parts, and no other one.
func floor(why, part string, may ...string) rule {
	of := func(name string) string { return "services/distributor/internal/" + name + "/..." }
	var others []string
	for _, name := range []string{
		"spine", "access", "config", "delivery", "rollout", "notify", "fleetgit", "keys",
		"sqlstore", "fleet", "find", "problems", "standing", "api", "ui",
	} {
		if name != part && name != "spine" && !slices.Contains(may, name) {
			others = append(others, "./"+of(name))
		}
	}
	return rule{from: []string{of(part)}, forbidden: others, why: why}
}

// join concatenates patterns.
func join(lists ...[]string) []string {
	var all []string
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}
