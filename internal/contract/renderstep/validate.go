// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package renderstep

import (
	"cmp"
	"encoding/json"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/kit/fielderr"
)

// Limits of single fields. The limits of lists are in the protocol's comments, too.
const (
	maxSteps      = 16
	maxFiles      = 64
	maxParameters = 256
	maxLookups    = 32
	maxLibraries  = 16
	maxText       = 1024
	maxDepth      = 100 // of values
	// maxBytes bounds all steps of a service, as JSON. A plan of the cluster carries the steps of
	// all services in one message of 8 MiB.
	maxBytes = 64 << 10
)

// releaseName is Helm's own rule; see [HelmOptions.ReleaseName].
var releaseName = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`)

// MaxReleaseName is the most characters of a release's name. Helm leaves room for suffixes of
// object names.
const MaxReleaseName = 53

// Validate checks everything that can be checked without the files. The error is a *fielderr.Error
// whose path begins at the list.
func Validate(field string, steps []Step) error {
	if len(steps) > 0 && steps[0].FromPrevious {
		return fielderr.New(fielderr.Indexed(field, 0)+".from_previous", "there is no step before the first one")
	}
	if err := fielderr.Each(field, "steps", steps, maxSteps, validate); err != nil {
		return err
	}
	text, err := json.Marshal(steps)
	if err != nil {
		return fielderr.New(field, "cannot be stored: %v", err)
	}
	if len(text) > maxBytes {
		return fielderr.New(field, "has %d bytes; at most %d are allowed; put values into a file", len(text), maxBytes)
	}
	return nil
}

func validate(field string, s Step) error {
	if s.FromPrevious && s.Renderer != Kustomize && s.Renderer != WASM {
		return fielderr.New(field+".from_previous", "is for kustomize and wasm; other renderers make new objects")
	}
	for _, options := range []struct {
		of    Renderer
		given bool
	}{
		{Helm, s.Helm != nil},
		{Liquid, s.Liquid != nil},
		{Jsonnet, s.Jsonnet != nil},
		{CUE, s.CUE != nil},
		{WASM, s.WASM != nil},
	} {
		if options.given && options.of != s.Renderer {
			return fielderr.New(field+"."+string(options.of), "is for another renderer than %q", s.Renderer)
		}
	}
	if err := validatePath(field+".path", s.Path); err != nil {
		return err
	}
	switch s.Renderer {
	case Auto, Plain, Kustomize, Liquid:
		return nil
	case Helm:
		return fielderr.Within(field+".helm", s.Helm.validate())
	case Jsonnet:
		return fielderr.Within(field+".jsonnet", s.Jsonnet.validate())
	case CUE:
		return fielderr.Within(field+".cue", s.CUE.validate())
	case WASM:
		return fielderr.Within(field+".wasm", s.WASM.validate())
	}
	return fielderr.New(field, "renderer %q is not known", s.Renderer)
}

func (o *HelmOptions) validate() error {
	if o == nil {
		return nil
	}
	if o.ReleaseName != "" && (len(o.ReleaseName) > MaxReleaseName || !releaseName.MatchString(o.ReleaseName)) {
		return fielderr.New("release_name", "%q is not a name of a release: lower-case letters, digits, - and ., at most %d characters",
			o.ReleaseName, MaxReleaseName)
	}
	if !slices.Contains([]CRDPolicy{CRDsApply, CRDsCreate, CRDsSkip}, o.CRDs) {
		return fielderr.New("crds", "%q is not known", o.CRDs)
	}
	if o.FactsAt != "" && slices.Contains(strings.Split(o.FactsAt, "."), "") {
		return fielderr.New("facts_at", "%q is not a path of values, such as global.leat", o.FactsAt)
	}
	return cmp.Or(
		fielderr.Each("values_files", "files", o.ValuesFiles, maxFiles, validateValuesFile),
		validateDepth("values", o.Values, 0),
		validateTexts("parameters", o.Parameters),
		fielderr.Each("lookup", "rules", o.Lookup, maxLookups, validateLookup),
		validateText("facts_at", o.FactsAt),
	)
}

func validateValuesFile(field, file string) error {
	name := strings.TrimSuffix(file, "?")
	if name == "" {
		return fielderr.New(field, "is empty")
	}
	return validatePath(field, name)
}

func validateLookup(field string, r LookupRule) error {
	for _, part := range []struct{ name, text string }{
		{"api_version", r.APIVersion},
		{"kind", r.Kind},
		{"name", r.Name},
	} {
		if part.text == "" {
			return fielderr.New(field+"."+part.name, "is required")
		}
	}
	if r.Kind == "*" || r.APIVersion == "*" || r.Namespace == "*" {
		return fielderr.New(field, `only the name may be "*"`)
	}
	return cmp.Or(validateText(field+".api_version", r.APIVersion), validateText(field+".kind", r.Kind),
		validateText(field+".namespace", r.Namespace), validateText(field+".name", r.Name))
}

func (o *JsonnetOptions) validate() error {
	if o == nil {
		return nil
	}
	return cmp.Or(
		validatePath("file", o.File),
		fielderr.Each("library_paths", "folders", o.LibraryPaths, maxLibraries, validatePath),
		validateTexts("arguments", o.Arguments),
	)
}

func (o *CUEOptions) validate() error {
	if o == nil {
		return nil
	}
	return cmp.Or(validateText("expression", o.Expression), validateText("package", o.Package), validateTexts("tags", o.Tags))
}

func (o *WASMOptions) validate() error {
	if o == nil || strings.Trim(path.Clean(o.Module), "./") == "" {
		return fielderr.New("module", "is required")
	}
	return cmp.Or(validatePath("module", o.Module), validateDepth("config", o.Config, 0))
}

// validatePath accepts names inside the tree.
func validatePath(field, name string) error {
	if err := validateText(field, name); err != nil {
		return err
	}
	clean := path.Clean(name)
	if path.IsAbs(name) || clean == ".." || strings.HasPrefix(clean, "../") || strings.Contains(name, `\`) {
		return fielderr.New(field, "%q is not a path inside the service's tree; write it with forward slashes, from the tree's root", name)
	}
	return nil
}

func validateText(field, text string) error {
	if len(text) > maxText {
		return fielderr.New(field, "has %d bytes; at most %d are allowed", len(text), maxText)
	}
	if strings.ContainsFunc(text, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return fielderr.New(field, "holds control characters")
	}
	return nil
}

func validateTexts(field string, texts map[string]string) error {
	if len(texts) > maxParameters {
		return fielderr.New(field, "has %d elements; at most %d are allowed", len(texts), maxParameters)
	}
	for _, name := range slices.Sorted(maps.Keys(texts)) {
		if name == "" {
			return fielderr.New(field, "has an empty name")
		}
		if err := validateText(field, name); err != nil {
			return err
		}
	}
	return nil
}

func validateDepth(field string, value any, depth int) error {
	if depth > maxDepth {
		return fielderr.New(field, "is nested more than %d deep", maxDepth)
	}
	switch v := value.(type) {
	case map[string]any:
		for _, item := range v {
			if err := validateDepth(field, item, depth+1); err != nil {
				return err
			}
		}
	case []any:
		for _, item := range v {
			if err := validateDepth(field, item, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}
