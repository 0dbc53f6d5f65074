// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package syncpolicy

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"time"

	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/renderstep"
	"github.com/leatdev/leat/internal/kit/fielderr"
)

// The meanings of options that their owner left out.
const (
	defaultNamespace     = "default"
	defaultHealthTimeout = 10 * time.Minute
	defaultTestsTimeout  = 5 * time.Minute
)

// Options are how a service's owner wants its manifests applied: the same value in the catalog, in
// plans and in agents. The zero Options leave everything to its default. Options are a value:
// callers must not change what their pointers and slices lead to.
//
// The names in JSON are a contract. The distributor's database and the inventories in the clusters
// hold Options that earlier versions wrote.
type Options struct {
	// Namespace is the namespace of objects that name none. Empty: "default".
	Namespace string `json:"namespace,omitempty"`
	// CreateNamespace creates that namespace if it does not exist. Nil: true.
	CreateNamespace *bool `json:"createNamespace,omitempty"`
	// Prune deletes objects that left the manifests. Nil: true.
	Prune *bool `json:"prune,omitempty"`
	// HealthTimeout is how long objects may take to become healthy. Zero: 10 min.
	HealthTimeout time.Duration `json:"healthTimeout,omitempty"`
	// ForceConflicts takes fields from other field managers.
	ForceConflicts bool `json:"forceConflicts,omitempty"`
	// PruneConfirmation is the digest of the objects that the agent's guard kept and whose deletion
	// a person confirmed. Empty: none.
	PruneConfirmation string `json:"pruneConfirmation,omitempty"`
	// Paused leaves the service unchanged.
	Paused bool `json:"paused,omitempty"`
	// PausedUntil is when Paused ends by itself. Zero: it does not. Agents do not get it: see AsOf.
	PausedUntil time.Time `json:"pausedUntil,omitzero"`
	// DryRun reports what would change, and changes nothing.
	DryRun bool `json:"dryRun,omitempty"`
	// Renderer turns the files of each source into objects. It is [RenderAuto] if there are steps.
	Renderer Renderer `json:"renderer,omitempty"`
	// Render are the steps that make objects from the tree of all sources. Empty: Renderer is the
	// only step, on each source.
	Render []renderstep.Step `json:"render,omitempty"`
	// Policy controls how objects are kept.
	Policy Policy `json:"policy,omitzero"`
}

// Renderer is a way to make objects from a folder.
type Renderer string

// The renderers.
const (
	RenderAuto      Renderer = ""          // kustomize if the folder holds a kustomization file, else plain
	RenderPlain     Renderer = "plain"     // every .yaml, .yml and .json file below the folder
	RenderKustomize Renderer = "kustomize" // kustomize build of the folder
)

// UnmarshalJSON implements json.Unmarshaler. It also reads the number that agents once wrote.
func (r *Renderer) UnmarshalJSON(text []byte) error {
	numbered := map[string]Renderer{"0": RenderAuto, "1": RenderPlain, "2": RenderKustomize}
	if known, isNumber := numbered[string(text)]; isNumber {
		*r = known
		return nil
	}
	return json.Unmarshal(text, (*string)(r))
}

// WithDefaults returns the options with every default filled in. The hub fills them in when it
// makes a plan, so that all agents follow the hub's defaults.
func (o Options) WithDefaults() Options {
	o.Namespace = o.NamespaceOrDefault()
	o.HealthTimeout = o.HealthTimeoutOrDefault()
	o.CreateNamespace = cmp.Or(o.CreateNamespace, new(true))
	o.Prune = cmp.Or(o.Prune, new(true))
	return o
}

// NamespaceOrDefault returns the namespace of objects that name none.
func (o Options) NamespaceOrDefault() string { return cmp.Or(o.Namespace, defaultNamespace) }

// HealthTimeoutOrDefault returns how long objects may take to become healthy.
func (o Options) HealthTimeoutOrDefault() time.Duration {
	return cmp.Or(max(o.HealthTimeout, 0), defaultHealthTimeout)
}

// TestsTimeoutOrDefault returns how long all tests together may take.
func (o Options) TestsTimeoutOrDefault() time.Duration {
	if o.Policy.Tests == nil {
		return defaultTestsTimeout
	}
	return cmp.Or(max(o.Policy.Tests.Timeout, 0), defaultTestsTimeout)
}

// Prunes reports whether objects that left the manifests are deleted. It is for options with
// defaults: while Prune is unset nothing is deleted.
func (o Options) Prunes() bool { return o.Prune != nil && *o.Prune }

// CreatesNamespace reports whether the namespace is created if it does not exist. It is for options
// with defaults, as Prunes is.
func (o Options) CreatesNamespace() bool { return o.CreateNamespace != nil && *o.CreateNamespace }

// HasTestsDisabled reports whether the policy turns the service's tests off.
func (o Options) HasTestsDisabled() bool { return o.Policy.Tests != nil && o.Policy.Tests.Disabled }

// ServicesNeeded returns the names of the services that the service depends on, each once.
func (o Options) ServicesNeeded() []string {
	var names []string
	for _, d := range o.Policy.DependsOn {
		if d.Service != "" && !slices.Contains(names, d.Service) {
			names = append(names, d.Service)
		}
	}
	return names
}

// Equal reports whether both ask for the same, in the same words: an option that is left out does
// not equal its default.
func (o Options) Equal(other Options) bool { return reflect.DeepEqual(o, other) }

// IsZero reports whether everything is left to its default.
func (o Options) IsZero() bool { return reflect.ValueOf(o).IsZero() }

// Validate checks everything that can be checked without looking at other objects. Service is the
// name of the service that the options are for. The error is a *fielderr.Error whose path begins at a
// service's spec.
func (o Options) Validate(service string) error {
	if o.Namespace != "" {
		if err := validateLabel("namespace", o.Namespace); err != nil {
			return err
		}
	}
	if o.PruneConfirmation != "" {
		if _, err := digest.Parse(o.PruneConfirmation); err != nil {
			return fielderr.New("sync.prune_confirmation", "is not a digest; copy it from the message of the stopped prune")
		}
	}
	if o.Renderer != RenderAuto && len(o.Render) > 0 {
		return fielderr.New("renderer", "and render exclude each other; write the renderer as a step: render: [{%s: {}}]", o.Renderer)
	}
	return cmp.Or(
		known("renderer", o.Renderer, RenderAuto, RenderPlain, RenderKustomize),
		renderstep.Validate("render", o.Render),
		between("sync.health_timeout", o.HealthTimeout, 0, maxWait),
		o.Pause().Validate("paused"),
		fielderr.Within("policy", o.Policy.Validate(service)),
	)
}
