// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"unicode/utf8"

	"github.com/leatdev/leat/internal/contract/renderstep"
)

// Input is everything that a render depends on, and whose it is. Inputs that are equal except for
// the service have equal outputs. An input must not change during its render.
type Input struct {
	// Service names the service to which the render is charged: slow renders of one leave room for
	// other services' renders. It changes nothing of the output, and no worker learns it. Empty:
	// unknown.
	Service string
	// Files are the service's tree.
	Files *Files
	// Folder is the folder of steps without a path.
	Folder string
	// Except is a folder whose files are no manifests for the plain renderer. Empty: none.
	Except string
	// Steps are carried out in their order. There is at least one.
	Steps []renderstep.Step
	// Variables are the service's configuration. Nil: it has none, and ${NAME} stays as it is.
	Variables *Variables
	// Facts describe the service and its cluster.
	Facts Facts
	// Installed reports that the service was applied completely before, with other content.
	Installed bool
	// Generated holds the earlier results of random functions. Nil: they were never called.
	Generated Generated
	// Lookups are the objects that templates may read.
	Lookups []Lookup
	// IsPart reports that the input is one step of another one, whose parameters are compared with
	// their schema there.
	IsPart bool
}

// Facts tell templates about the place that they are rendered for. Their names in JSON are part of
// the contract with templates.
type Facts struct {
	Cluster ClusterFacts `json:"cluster"`
	Service ServiceFacts `json:"service"`
	// Sources are the service's, in their order.
	Sources []SourceFacts `json:"sources,omitempty"`
}

// ClusterFacts describe a cluster.
type ClusterFacts struct {
	Name        string            `json:"name"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	// KubernetesVersion is the API server's version, such as v1.36.1. Empty: unknown.
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// APIVersions are the versions and kinds that the API server serves, such as "apps/v1" and
	// "apps/v1/Deployment", sorted.
	APIVersions []string `json:"apiVersions,omitempty"`
}

// ServiceFacts describe a service.
type ServiceFacts struct {
	Name string `json:"name"`
	// Namespace is the namespace of objects that name none.
	Namespace string `json:"namespace"`
}

// SourceFacts describe the content of a source.
type SourceFacts struct {
	Repository string `json:"repository,omitempty"`
	Path       string `json:"path,omitempty"`
	Mount      string `json:"mount,omitempty"`
	// Commit is a commit's id, or the digest of a chart or an artifact.
	Commit string `json:"commit,omitempty"`
	// Version is the chart's version, or the tag, that the source's ref selected. Empty: it selected
	// no tag.
	Version string `json:"version,omitempty"`
	Digest  string `json:"digest,omitempty"`
}

// Lookup is an object that templates may read.
type Lookup struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	// Object is the object as JSON.
	Object []byte `json:"object"`
}

// Secrets returns the values of a Secret as plain text, or as they are if they are not text. Other
// objects have none.
func (l Lookup) Secrets() []string {
	var secret struct{ Data map[string]string }
	if l.APIVersion != "v1" || l.Kind != "Secret" || json.Unmarshal(l.Object, &secret) != nil {
		return nil
	}
	var all []string
	for _, encoded := range secret.Data {
		plain, err := base64.StdEncoding.DecodeString(encoded)
		if err != nil || !utf8.Valid(plain) {
			plain = []byte(encoded)
		}
		if len(plain) > 0 {
			all = append(all, string(plain))
		}
	}
	return all
}

// Output is the result of a render.
type Output struct {
	// Objects come in the order of the steps, and within a step in its renderer's order. Every one
	// has apiVersion, kind and a name.
	Objects []Object
	// Tainted are the texts of objects that contain a secret of the configuration, or a value of a
	// Secret that was looked up.
	Tainted []string
	// Secrets are the values of Secrets that templates have looked up, sorted.
	Secrets []string
	// Generated holds the results of random functions, for the next render. Nil: none was called.
	Generated Generated
	// Asked lists what the render read besides files and configuration.
	Asked Asked
	// Warnings are for the service's owner.
	Warnings []string
	// Notes are the charts' messages to the person who installs them, one text for each chart, within
	// MaxNotes together. Secrets of the configuration are masked.
	Notes []string
}

// Asked lists the facts that a render read, or may have read: if it changes, the same files make
// other objects.
type Asked struct {
	// Facts: the facts of the cluster and the sources, except APIVersions. Every render may read the
	// service's.
	Facts bool `json:"facts,omitempty"`
	// APIVersions: the cluster's.
	APIVersions bool `json:"apiVersions,omitempty"`
	// Lookups: objects of the cluster.
	Lookups bool `json:"lookups,omitempty"`
}

// Add joins what two renders asked.
func (a Asked) Add(b Asked) Asked {
	return Asked{Facts: a.Facts || b.Facts, APIVersions: a.APIVersions || b.APIVersions, Lookups: a.Lookups || b.Lookups}
}

// Renderer carries out steps. Implementations are safe for concurrent use.
type Renderer interface {
	// Render returns what the steps make. It returns an *Error if only other content helps, a
	// *LimitError if a limit was exceeded, and the context's cause if ctx ended. Other errors are
	// of the machine, and worth a retry.
	Render(ctx context.Context, in Input) (Output, error)
}

// StepRenderer is one kind of step: files, parameters and facts in, documents out. It uses no
// client, no network, no disk and no clock. Implementations are safe for concurrent use. They may
// be impossible to interrupt, and use memory and time without bounds, since they run in a process
// that is limited from outside; but where a library lets them stop at a limit or at the context's
// end, they do. A panic is reported as an error of the content.
type StepRenderer interface {
	// RenderStep returns the step's result. Errors are the Renderer's. They name the file, the line
	// and the template where these are known, with paths from the tree's root. Messages may contain
	// secrets: the Engine masks them.
	RenderStep(ctx context.Context, in StepInput) (StepOutput, error)
}

// SchemaFile is the name of the JSON Schema of a service's parameters, in the folder of its
// manifests. A file of that name is never a manifest.
const SchemaFile = "leat.schema.json"

// MaxSchema bounds the bytes of a schema.
const MaxSchema = 256 << 10

// ParameterChecker compares a service's parameters with a schema. Like a StepRenderer it may be
// impossible to interrupt, and use memory and time without bounds.
type ParameterChecker interface {
	// CheckParameters returns an *Error about the file that names each parameter that does not meet
	// the schema, and no value of one. Other errors are the Renderer's. Nil variables are an empty
	// configuration.
	CheckParameters(ctx context.Context, file string, schema []byte, variables *Variables) error
}

// StepInput is the input of one step.
type StepInput struct {
	// Input is the render's. Its Files include the files of earlier steps; its Folder and Steps are
	// not this step's.
	Input

	// Step is the step, with the renderer that was asked for or detected.
	Step renderstep.Step
	// Folder is the step's folder, which exists: a clean path from the tree's root, "" for the root
	// itself.
	Folder string
	// Previous are the objects of the step before, if Step.FromPrevious.
	Previous []Object
	// Limits bound the output.
	Limits Limits
}

// StepOutput is the output of one step.
type StepOutput struct {
	// Documents are manifests. The Engine reads them, and checks and counts their objects.
	Documents []Document
	// Objects come after the objects of Documents. The Engine checks and counts them, too, and may
	// change them.
	Objects []Object
	// Files are files for later steps, by their path from the tree's root. They replace files of the
	// same name.
	Files map[string][]byte
	// Secrets are the values of Secrets that the step has looked up.
	Secrets []string
	// Generated holds the results of random functions in this step.
	Generated Generated
	// Asked lists the facts that the step read.
	Asked Asked
	// Warnings are for the service's owner.
	Warnings []string
	// Notes are a chart's message to the person who installs it. Empty: nothing.
	Notes string
}

// Document is the text of one or more manifests in YAML or JSON.
type Document struct {
	// Path names its source, such as chart/templates/web.yaml.
	Path string
	Text []byte
	// Position is the place of the first manifest among the manifests of Path, from 1. Zero: 1.
	Position int
	// IsEncoded reports that Text is one manifest as an encoder of JSON writes it: without aliases,
	// comments, and keys that occur twice. It costs less to read.
	IsEncoded bool
	// Annotations are set on each object of the text, over its own.
	Annotations map[string]string
	// LastKeyWins reports whether, of a key that occurs twice the last value counts, with a warning.
	// Otherwise such a key is an error.
	LastKeyWins bool
}
