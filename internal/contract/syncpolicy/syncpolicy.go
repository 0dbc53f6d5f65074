// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package syncpolicy holds the options by which a service's owner controls how its manifests are
// applied and its objects are kept: namespace, pruning, drift, conflicts, deletion, dependencies,
// windows, tests, health. The hub checks and stores them, and sends them to the agent, which
// follows them. Package policywire converts them.
package syncpolicy

import "time"

// Policy holds the decisions of a service's owner. The zero Policy means every default. It is a
// value; callers must not change its slices.
type Policy struct {
	// Drift is what to do about objects that others changed.
	Drift DriftMode `json:"drift,omitempty"`
	// Ignore lists fields that are left to others.
	Ignore []IgnoreRule `json:"ignore,omitempty"`
	// Conflicts decide about fields that other managers own; the first rule whose manager matches
	// decides. Where none does, the conflict is reported.
	Conflicts []ConflictRule `json:"conflicts,omitempty"`
	// Adoption is what to do about objects that exist and that Leat has not made.
	Adoption Adoption `json:"adoption,omitempty"`
	// Recreate deletes an object and creates it again if an immutable field changed.
	Recreate bool `json:"recreate,omitempty"`
	// Deletion is how objects are deleted.
	Deletion Deletion `json:"deletion,omitzero"`
	// DependsOn lists what has to be there before anything is applied.
	DependsOn []Dependency `json:"dependsOn,omitempty"`
	// Windows are the times when a change may be applied. Empty: always.
	Windows []Window `json:"windows,omitempty"`
	// Tests are run when everything is healthy. Nil: only the tests in the manifests.
	Tests *Tests `json:"tests,omitempty"`
	// ServiceAccount is the one that everything is done as, "namespace/name"; a name alone is one
	// in the service's own namespace. Empty: the cluster's default, which is the agent itself where
	// none is set.
	ServiceAccount string `json:"serviceAccount,omitempty"`
	// HealthRules judge objects of kinds that Leat does not know, or otherwise than Leat does.
	HealthRules []HealthRule `json:"healthRules,omitempty"`
	// Limits are the limits of the service's project. The hub sets them in plans; nil: none. Owners of
	// services cannot set them.
	Limits *Limits `json:"limits,omitempty"`
}

// DriftMode is what to do about objects that others changed.
type DriftMode string

// The drift modes.
const (
	DriftCorrect DriftMode = ""       // put them right at once
	DriftReport  DriftMode = "report" // report the differences, until the next change or sync
	DriftOff     DriftMode = "off"    // do not look
)

// Selector chooses objects. An empty field chooses all; text fields may hold the wildcards * and ?.
type Selector struct {
	// Group is the API group; "core" is the one without a name.
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
	// Labels is a label selector in the notation of kubectl's -l.
	Labels string `json:"labels,omitempty"`
}

// IgnoreRule leaves fields to others. A field that another manager owns is left out of the applied
// object; one without another owner keeps the value that it has in the cluster. Where the object
// does not exist, it is created with the manifest's value.
type IgnoreRule struct {
	Objects Selector `json:"objects,omitzero"`
	// Pointers name fields, as JSON pointers (RFC 6901). Where a list's items have names,
	// "[name=app]" may stand for the number.
	Pointers []string `json:"pointers,omitempty"`
	// Managers name field managers whose fields are ignored, whichever they are; wildcards as in a
	// Selector.
	Managers []string `json:"managers,omitempty"`
	// Until is when the rule ends by itself. Zero: it does not. Agents do not get it: see Options.AsOf.
	Until time.Time `json:"until,omitzero"`
}

// ConflictRule decides what to do about fields that a manager owns and a manifest sets to another
// value.
type ConflictRule struct {
	// Manager is the field manager's name, with wildcards. Empty: any.
	Manager string         `json:"manager,omitempty"`
	Action  ConflictAction `json:"action,omitempty"`
}

// ConflictAction is the response to a conflict.
type ConflictAction string

// The conflict actions.
const (
	ConflictReport ConflictAction = ""      // apply nothing of the object, and name manager and fields
	ConflictForce  ConflictAction = "force" // take the fields
	ConflictYield  ConflictAction = "yield" // leave the fields to the manager, and apply the rest
)

// Adoption is what to do about objects that exist and that Leat has not made.
type Adoption string

// The ways to adopt.
const (
	// AdoptAlways takes objects over that belong to no other service. Fields of kubectl apply, Helm,
	// Flux and Argo CD become Leat's, so that a field that leaves the manifest leaves the object.
	AdoptAlways Adoption = ""
	// AdoptNever reports them.
	AdoptNever Adoption = "never"
)

// Deletion is how objects are deleted.
type Deletion struct {
	// Propagation is the effect on an object's dependents.
	Propagation Propagation `json:"propagation,omitempty"`
	// Timeout is how long objects may take to go, before that counts as a failure. Zero: 5 min.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Detach leaves all objects in the cluster when the service goes.
	Detach bool `json:"detach,omitempty"`
	// Namespaces, Definitions and VolumeClaims allow the deletion of what takes more than itself
	// away.
	Namespaces   bool `json:"namespaces,omitempty"`
	Definitions  bool `json:"definitions,omitempty"`
	VolumeClaims bool `json:"volumeClaims,omitempty"`
}

// Propagation is the effect on an object's dependents when it is deleted.
type Propagation string

// The propagations.
const (
	DeleteForeground Propagation = ""           // they go first
	DeleteBackground Propagation = "background" // they go afterwards
	DeleteOrphan     Propagation = "orphan"     // they stay
)

// Dependency is something that has to be there. Either Service or Object is set.
type Dependency struct {
	// Service is another service of this cluster, which has to be healthy.
	Service string `json:"service,omitempty"`
	// Object is any object in the cluster.
	Object *ObjectReference `json:"object,omitempty"`
	// Condition is a CEL expression over the object, self, that has to be true. Empty: the object
	// has to be healthy.
	Condition string `json:"condition,omitempty"`
}

// ObjectReference names one object.
type ObjectReference struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace empty means the service's own, where the kind has namespaces.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// Window is a span of time that comes again and again. While a window that denies is open, nothing
// is applied; where there are windows that do not deny, one of them has to be open. A sync that a
// person asks for is carried out in any case, unless Strict.
type Window struct {
	// Schedule is when the window opens, in cron's notation of five fields.
	Schedule string `json:"schedule"`
	// Duration is how long it stays open.
	Duration time.Duration `json:"duration"`
	// TimeZone is the name of one, such as "Europe/Berlin". Empty: UTC.
	TimeZone string `json:"timeZone,omitempty"`
	Deny     bool   `json:"deny,omitempty"`
	Strict   bool   `json:"strict,omitempty"`
}

// Tests are Jobs that show whether a service works.
type Tests struct {
	// Path is a folder with manifests, inside the folder of the service's first source. Empty: no
	// folder.
	Path string `json:"path,omitempty"`
	// Timeout bounds all of them. Zero: 5 min.
	Timeout time.Duration `json:"timeout,omitempty"`
	// Disabled runs none, including the tests in the manifests.
	Disabled bool `json:"disabled,omitempty"`
}

// HealthRule judges objects of one kind, by CEL expressions over the object, self. Degraded is
// evaluated first, then Progressing, then Healthy; an object that none of them holds for is
// progressing.
type HealthRule struct {
	// Group is the API group, Kind the kind; wildcards as in a Selector.
	Group string `json:"group,omitempty"`
	Kind  string `json:"kind"`
	// Healthy, Progressing and Degraded are boolean expressions. Empty: never.
	Healthy     string `json:"healthy,omitempty"`
	Progressing string `json:"progressing,omitempty"`
	Degraded    string `json:"degraded,omitempty"`
	// Message is an expression that makes a text for people. Empty: the message of the object's
	// Ready condition, if it has one.
	Message string `json:"message,omitempty"`
}

// AgentSettings are the settings that the hub sends to a cluster's agent. The zero value means
// every default. A cluster's own settings come before the fleet's, field by field; health rules are
// joined, the cluster's first.
type AgentSettings struct {
	// HealthRules are for the objects of all services; a service's own come first.
	HealthRules []HealthRule `json:"healthRules,omitempty"`
	// DefaultServiceAccount is for services that name none, as in Policy.
	DefaultServiceAccount string `json:"defaultServiceAccount,omitempty"`
	// LockDown refuses services that would be applied with the agent's own rights.
	LockDown bool `json:"lockDown,omitempty"`
	// RefreshInterval is how often everything is checked again. Zero: what the agent was started with.
	RefreshInterval time.Duration `json:"refreshInterval,omitempty"`
	// Workers is how many services are worked on at once. Zero: what the agent was started with.
	Workers int `json:"workers,omitempty"`
	// LogLevel is debug, info, warn or error. Empty: what the agent was started with.
	LogLevel string `json:"logLevel,omitempty"`
	// Metrics is the Prometheus that has the cluster's metrics: namespace/[https:]service:port. Empty:
	// none.
	Metrics string `json:"metrics,omitempty"`
}
