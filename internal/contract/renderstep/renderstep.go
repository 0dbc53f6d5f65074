// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package renderstep holds how a service's owner wants its objects made: a list of steps over the
// tree of the service's sources.
//
// The catalog stores steps, plans carry them, and agents and the command line carry them out. All
// of them use this value and its validation; package renderstepwire converts it.
package renderstep

import (
	"maps"
	"slices"
)

// Renderer is a kind of step.
type Renderer string

// The renderers.
const (
	Auto      Renderer = ""          // what the folder's files ask for: kustomize, helm or plain
	Plain     Renderer = "plain"     // every .yaml, .yml and .json file below the folder
	Kustomize Renderer = "kustomize" // kustomize build of the folder
	Helm      Renderer = "helm"      // the chart in the folder
	Liquid    Renderer = "liquid"    // Liquid templates
	Jsonnet   Renderer = "jsonnet"   // a Jsonnet file
	CUE       Renderer = "cue"       // a CUE package
	WASM      Renderer = "wasm"      // a WebAssembly module
)

// Step makes objects from a folder of the service's tree, or changes the objects of the step before
// it. Steps are values: callers must not change what their pointers, slices and maps lead to.
//
// The names in JSON are a contract. The distributor's database and the inventories in the clusters
// hold Steps that earlier versions wrote.
type Step struct {
	// Path is the folder. Empty: the folder of the first source's manifests.
	Path string `json:"path,omitempty"`
	// FromPrevious makes the step work on the objects of the step before.
	FromPrevious bool `json:"fromPrevious,omitempty"`
	// Substitute replaces ${NAME} in the objects. Nil: the default of [Substituted].
	Substitute *bool `json:"substitute,omitempty"`
	// Renderer is the kind of the step. The field below with its name has the options, and may be
	// nil.
	Renderer Renderer `json:"renderer,omitempty"`

	Helm    *HelmOptions    `json:"helm,omitempty"`
	Liquid  *LiquidOptions  `json:"liquid,omitempty"`
	Jsonnet *JsonnetOptions `json:"jsonnet,omitempty"`
	CUE     *CUEOptions     `json:"cue,omitempty"`
	WASM    *WASMOptions    `json:"wasm,omitempty"`
}

// HelmOptions are the options of a Helm step. The zero value leaves everything to its default.
type HelmOptions struct {
	// ReleaseName is the name of the release. Empty: the service's, cut to 53 characters.
	ReleaseName string `json:"releaseName,omitempty"`
	// ValuesFiles are files of the tree. A later one overrides an earlier one; one that ends with
	// "?" may be missing.
	ValuesFiles []string `json:"valuesFiles,omitempty"`
	// Values override the files' values. They have the types that encoding/json decodes into an any.
	Values map[string]any `json:"values,omitempty"`
	// Parameters override all other values; a key is a path in the syntax of helm --set.
	Parameters map[string]string `json:"parameters,omitempty"`
	// CRDs sets how to treat the definitions in the chart's folder crds.
	CRDs CRDPolicy `json:"crds,omitempty"`
	// SkipSchema does not compare the values with the chart's schema.
	SkipSchema bool `json:"skipSchema,omitempty"`
	// SkipTests and SkipHooks leave out the chart's tests and hooks.
	SkipTests bool `json:"skipTests,omitempty"`
	SkipHooks bool `json:"skipHooks,omitempty"`
	// Lookup lists the objects that the function lookup may read. Empty: nothing.
	Lookup []LookupRule `json:"lookup,omitempty"`
	// FactsAt is where the facts are put in the values. Empty: nowhere.
	FactsAt string `json:"factsAt,omitempty"`
	// Installed reports that Helm has installed the release before: the first apply is an upgrade
	// for the chart.
	Installed bool `json:"installed,omitempty"`
}

// CRDPolicy is how to treat the definitions in a chart's folder crds.
type CRDPolicy string

// The policies.
const (
	CRDsApply  CRDPolicy = ""       // create and upgrade, never delete
	CRDsCreate CRDPolicy = "create" // create, and leave existing ones as they are
	CRDsSkip   CRDPolicy = "skip"   // leave out
)

// UpdateAnnotation on an object decides whether agents change it once it exists. With the value
// UpdateDisabled they create the object if it is missing, and leave it to others from then on. The
// policy CRDsCreate puts it on definitions.
const (
	UpdateAnnotation = "leat.dev/update"
	UpdateEnabled    = "enabled" // the default
	UpdateDisabled   = "disabled"
)

// LookupRule permits the function lookup to read objects.
type LookupRule struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Namespace is ignored for cluster-scoped kinds. Empty: the service's.
	Namespace string `json:"namespace,omitempty"`
	// Name is a name, or "*" for every one.
	Name string `json:"name"`
}

// LiquidOptions are the options of a Liquid step.
type LiquidOptions struct {
	// FilesOnly writes the files for later steps, and makes no objects.
	FilesOnly bool `json:"filesOnly,omitempty"`
}

// JsonnetOptions are the options of a Jsonnet step.
type JsonnetOptions struct {
	// File is relative to the step's folder. Empty: main.jsonnet.
	File string `json:"file,omitempty"`
	// LibraryPaths are relative to the step's folder. Empty: vendor and lib.
	LibraryPaths []string `json:"libraryPaths,omitempty"`
	// Arguments are top-level arguments.
	Arguments map[string]string `json:"arguments,omitempty"`
}

// CUEOptions are the options of a CUE step.
type CUEOptions struct {
	// Expression selects the objects. Empty: objects.
	Expression string `json:"expression,omitempty"`
	// Package is the package's name. Empty: the only one of the folder.
	Package string `json:"package,omitempty"`
	// Tags are the values of @tag attributes.
	Tags map[string]string `json:"tags,omitempty"`
}

// WASMOptions are the options of a WASM step.
type WASMOptions struct {
	// Module is the module's file in the tree.
	Module string `json:"module"`
	// Config is the module's own configuration, as Values of a Helm step.
	Config map[string]any `json:"config,omitempty"`
	// AllowClock and AllowRandom make the module's output depend on more than its input.
	AllowClock  bool `json:"allowClock,omitempty"`
	AllowRandom bool `json:"allowRandom,omitempty"`
}

// ProducesText reports whether the renderer makes objects by filling in texts of its own: it is
// given the configuration before it begins, and ${NAME} is not replaced in its output unless the
// step asks for it.
func (r Renderer) ProducesText() bool {
	return r != Auto && r != Plain && r != Kustomize
}

// Substituted reports for each of the steps whether ${NAME} is replaced in its objects. The
// renderer of an Auto step has to be detected before. Objects that were not replaced are not
// replaced by default in a later step either: a script in a chart holds ${NAME} of its own.
func Substituted(steps []Step) []bool {
	replaced := make([]bool, len(steps))
	for i, step := range steps {
		switch {
		case step.Substitute != nil:
			replaced[i] = *step.Substitute
		case step.FromPrevious && i > 0:
			replaced[i] = replaced[i-1] && !step.Renderer.ProducesText()
		default:
			replaced[i] = !step.Renderer.ProducesText()
		}
	}
	return replaced
}

// Renderers returns the renderers that the steps name, sorted, each once.
func Renderers(steps []Step) []Renderer {
	found := map[Renderer]bool{}
	for _, step := range steps {
		found[step.Renderer] = true
	}
	return slices.Sorted(maps.Keys(found))
}
