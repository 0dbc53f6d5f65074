// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package arch

// by names the reader of a row.
type by string

const (
	// byReader reads what a spec names. Its type is *confine.Reader.
	byReader by = "the service's reader"
	// byAccount reads the service's own objects with the rights of the service.
	byAccount by = "the service's account"
	// byAgent reads about the service's own objects as the agent itself.
	byAgent by = "the agent itself"
	// byPort is the code that carries out the reads of the other rows, for its caller.
	byPort by = "its caller"
	// byUpkeep reads what the agent itself needs. No spec directs it.
	byUpkeep by = "the agent, for itself"
)

// readers describe who reads, in the order of the page.
var readers = []struct {
	by      by
	rights  string
	limited string
}{
	{byReader, "the account's; without one, the agent's", "the `namespaces` and `clusterScopedKinds` of the project; never the agent's own namespace"},
	{byAccount, "the account's; without one, the agent's", "objects of the service's manifests, after their comparison with the limits, and objects of its inventory"},
	{byAgent, "the agent's", "objects of the service's inventory, and what Kubernetes keeps about them"},
}

const (
	manifests = "objects of the service's manifests"
	recorded  = "objects of the service's inventory"
)

// reads are all reads of the cluster in the agent's code: what a file reads, by which reader, and
// how often. A file has a row for each of its readers. docs/reference/agent/reads.md is made of the
// rows that have one.
var reads = []struct {
	file  string
	by    by
	calls int
	what  string
	why   string
}{
	{"manifest/configuration.go", byReader, 1, "a Secret or ConfigMap that `config.references` names by `cluster://`", "values of the service's configuration"},
	{"manifest/encrypted.go", byReader, 1, "the Secret `leat-sops` of the account's namespace, or of the agent's for a service without an account; its name is fixed, so limits do not apply", "keys of encrypted manifests"},
	{"manifest/lookup.go", byReader, 2, "objects that a rule of `lookup` names", "Helm's `lookup`"},
	{"reconcile/prerequisites.go", byReader, 1, "objects that `dependsOn` names", "a change waits until they are ready"},
	{"reconcile/watchlist.go", byReader, 2, "what one of the rows above has read for the last rendering", "a change of it renders the service again"},

	{"reconcile/execute/claim.go", byAccount, 1, manifests, "an object that was another manager's"},
	{"reconcile/execute/depart.go", byAccount, 1, recorded, "an object that another service took over"},
	{"reconcile/execute/diff.go", byAccount, 2, manifests + ", and " + recorded, "a difference, or a dry run"},
	{"reconcile/execute/drift.go", byAccount, 2, manifests, "what others changed"},
	{"reconcile/execute/hooks.go", byAccount, 1, manifests, "whether a hook is done"},
	{"reconcile/execute/prune.go", byAccount, 1, recorded, "an object that left the manifests"},
	{"reconcile/execute/recreate.go", byAccount, 1, manifests, "an object that cannot be changed in place"},
	{"reconcile/execute/remove.go", byAccount, 3, recorded + ", and the content of a namespace or a definition among them", "a deletion. The content of a namespace is listed as the agent, too, because a deletion also reaches what the account cannot see"},
	{"reconcile/execute/run.go", byAccount, 1, manifests + ", and " + recorded, "progress of the objects that a run applied"},
	{"reconcile/execute/tests.go", byAccount, 2, manifests, "the result of a test"},
	{"reconcile/submit/adopt.go", byAccount, 3, manifests, "an object that exists before the service's first apply"},
	{"reconcile/submit/submit.go", byAccount, 1, manifests, "an object that an apply replaces"},

	{"reconcile/execute/symptoms.go", byAgent, 1, recorded + "; Pods, claims and events of them", "why an object hangs. Secrets of the configuration are masked"},
	{"reconcile/execute/tests.go", byAgent, 1, "the end of the log of a test's Pods", "why a test failed"},
	{"reconcile/execute/self.go", byAgent, 3, "Roles and bindings that a service's manifests change, and all bindings before a role is deleted", "whether the agent would take rights from itself"},
	{"kube/watch/server.go", byAgent, 1, "objects with the label of a service, and the Secrets and ConfigMaps among them as the account in a locked cluster", "health and drift"},
	{"kube/generated.go", byAgent, 1, "Secrets `leat-generated-…` of the agent's namespace, by the service's name", "values that the service's templates generate"},
	{"kube/record.go", byAgent, 1, "ConfigMaps `leat-inventory…` of the agent's namespace", "the inventories of all services"},

	{"confine/confine.go", byPort, 3, "", ""},
	{"reconcile/follow/follow.go", byPort, 1, "", ""},
	{"kube/delete.go", byPort, 1, "", ""},
	{"kube/contents.go", byPort, 3, "", ""},
	{"kube/follow.go", byPort, 2, "", ""},
	{"kube/logs.go", byPort, 4, "", ""},
	{"kube/object.go", byPort, 6, "", ""},
	{"kube/symptoms.go", byPort, 1, "", ""},

	{"kube/discovery.go", byUpkeep, 1, "", ""},
	{"kube/keep.go", byUpkeep, 2, "", ""},
	{"kube/kube.go", byUpkeep, 2, "", ""},
	{"kube/leader.go", byUpkeep, 2, "", ""},
	{"kube/self.go", byUpkeep, 2, "", ""},
}

// holders are the packages of the agent that name the types k8s.API or k8s.Reader, by which they could
// read any object of the cluster. Each has its reason.
var holders = map[string]string{
	"services/agent/internal/kube":                  "the adapter",
	"services/agent/internal/reconcile":             "hands the cluster to the executor and to the registry of owners",
	"services/agent/internal/reconcile/clustertest": "the suite of the port",
	"services/agent/internal/reconcile/execute":     "reads the service's own objects; see reads",
	"services/agent/internal/reconcile/ownership":   "asks for the scope of kinds alone",
	"services/agent/internal/reconcile/submit":      "reads the service's own objects; see reads",
}
