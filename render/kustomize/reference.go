// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package kustomize

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/konfig"
	"sigs.k8s.io/kustomize/api/types"

	"github.com/leatdev/leat/render"
)

var (
	// errRemote is the error for every reference into the network. An agent that fetched such a
	// reference would apply content that was not reviewed. It would also fetch, for a committer,
	// anything that the cluster can reach.
	errRemote = errors.New("remote references are not fetched; put a copy into the repository")
	// errLooksRemote is the error for the name of an existing file or folder that kustomize would
	// treat as a repository.
	errLooksRemote = errors.New("kustomize takes this for a remote repository, and remote references are not fetched; " +
		"write ./ before it if it is a folder or file of the bundle")
	errOutside = errors.New("is outside the bundle; name its folder in the source's folders, or set root to one that holds both, such as \".\"")
	errHelm    = errors.New("helmCharts: Helm charts are not rendered by kustomize build here; put the rendered chart into the repository")
)

// referrer walks the kustomizations that a folder leads to, before kustomize does. Kustomize would
// fetch references that it does not find, and its error about a file that is not in the bundle does
// not explain what to do. The referrer reads what kustomize's own types decode, so that it
// understands every spelling that kustomize understands.
type referrer struct {
	files *render.Files
	seen  map[visit]bool
}

// visit is a folder and the role in which it is walked.
type visit struct {
	folder  string
	plugins bool // its resources are configurations of generators and transformers
}

// checkReferences returns an error unless everything that the kustomization of folder names,
// directly or not, is a file or folder of the bundle.
func checkReferences(files *render.Files, folder string) error {
	return (&referrer{files: files, seen: map[visit]bool{}}).walk(visit{folder: folder})
}

func (r *referrer) walk(v visit) error {
	if r.seen[v] {
		return nil
	}
	r.seen[v] = true
	name, k, err := r.read(v.folder)
	if err != nil {
		return err
	}
	if v.plugins {
		if err := onlyResources(k); err != nil {
			return &render.Error{Path: name, Cause: err}
		}
	}
	refs := references(k)
	for _, ref := range refs {
		if err := r.check(v, ref); err != nil {
			return &render.Error{Path: name, Cause: fmt.Errorf("%s: %q: %w", ref.field, render.Excerpt(ref.target), err)}
		}
	}
	return r.descend(v, name, refs)
}

// read returns the kustomization of a folder.
func (r *referrer) read(folder string) (string, types.Kustomization, error) {
	name := kustomization(r.files, folder)
	if name == "" {
		return "", types.Kustomization{}, noKustomization(folder)
	}
	for _, base := range konfig.RecognizedKustomizationFileNames() {
		other := path.Join(folder, base)
		if _, ok := r.files.Get(other); ok && other != name {
			return "", types.Kustomization{}, &render.Error{Path: other, Cause: fmt.Errorf("stands beside %s; a folder has one kustomization", name)}
		}
	}
	content, _ := r.files.Get(name)
	k, err := decodeKustomization(content)
	if err != nil {
		return "", types.Kustomization{}, &render.Error{Path: name, Document: 1, Cause: err}
	}
	return name, k, nil
}

// onlyResources returns an error if a kustomization of plugins does more than list them. With a
// patch or a replacement, a configuration could name a URL that is not in any file.
func onlyResources(k types.Kustomization) error {
	k.TypeMeta, k.MetaData, k.Resources, k.Bases = types.TypeMeta{}, nil, nil, nil
	rest := reflect.ValueOf(k)
	for i := range rest.NumField() {
		if !rest.Field(i).IsZero() {
			field, _, _ := strings.Cut(rest.Type().Field(i).Tag.Get("json"), ",")
			return fmt.Errorf("%s: a kustomization that generators, transformers or validators name may only list resources", field)
		}
	}
	return nil
}

// descend walks the folders among the references, and checks the configurations of generators and
// transformers.
func (r *referrer) descend(v visit, name string, refs []reference) error {
	for _, ref := range refs {
		plugin := ref.plugin || v.plugins
		if plugin && !v.plugins {
			if err := checkPlugin(name, []byte(ref.target)); err != nil { // the text may be the configuration itself
				return err
			}
		}
		if isInline(ref.target) && ref.inline {
			continue
		}
		target := path.Join(v.folder, ref.target)
		if target == "." {
			target = ""
		}
		content, isFile := r.files.Get(target)
		switch {
		case isFile && plugin:
			if err := checkPlugin(target, content); err != nil {
				return err
			}
		case isFile:
		default:
			if err := r.walk(visit{folder: target, plugins: plugin}); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *referrer) check(v visit, ref reference) error {
	if isInline(ref.target) && ref.inline {
		if isRemote(ref.target) { // kustomize treats a text that is not a document as a path
			return errRemote
		}
		return nil
	}
	target := path.Join(v.folder, ref.target)
	_, isFile := r.files.Get(target)
	exists := isFile || target == "." || r.files.HasFolder(target)
	switch {
	case isRemote(ref.target) && exists && !strings.Contains(ref.target, "://"):
		return errLooksRemote
	case isRemote(ref.target), strings.Contains(ref.target, "://"):
		return errRemote
	case path.IsAbs(ref.target) || target == ".." || strings.HasPrefix(target, "../"):
		return errOutside
	case exists:
		return nil
	case strings.Contains(ref.target, "?ref="):
		return errRemote
	}
	return errors.New("no such file or folder in the bundle")
}

// scpLike matches the beginning of the names of repositories that are reached by SSH.
var scpLike = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9-]*@[^/:]*[/:]`)

// isRemote reports whether kustomize might treat target as the address of a file or a repository
// elsewhere. It accepts everything that kustomize's loader.IsRemoteFile and git.NewRepoSpecFromURL
// accept, neither of which can be called.
func isRemote(target string) bool {
	if u, err := url.Parse(target); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return true
	}
	lower := strings.TrimPrefix(strings.ToLower(target), "git::")
	return len(lower) < len(target) || scpLike.MatchString(target) || slices.ContainsFunc(
		[]string{"http://", "https://", "ssh://", "file://", "git@", "github.com/", "github.com:"},
		func(prefix string) bool { return strings.HasPrefix(lower, prefix) })
}

// reference is one mention of another file or folder.
type reference struct {
	field  string
	target string
	plugin bool // it is the configuration of a generator or transformer
	inline bool // the target may be the document itself
}

// references returns the files and folders that a kustomization names. TestSecEveryFieldIsJudged
// compares it with the fields of kustomize's type.
func references(k types.Kustomization) []reference {
	var refs referenceList
	refs.addAll("resources", k.Resources, reference{})
	refs.addAll("bases", k.Bases, reference{})
	refs.addAll("components", k.Components, reference{})
	refs.addAll("crds", k.Crds, reference{})
	refs.addAll("configurations", k.Configurations, reference{})
	refs.addAll("generators", k.Generators, reference{plugin: true, inline: true})
	refs.addAll("transformers", k.Transformers, reference{plugin: true, inline: true})
	refs.addAll("validators", k.Validators, reference{plugin: true, inline: true})
	for _, patch := range k.PatchesStrategicMerge {
		refs.add("patchesStrategicMerge", string(patch), reference{inline: true})
	}
	for _, patch := range k.Patches {
		refs.add("patches", patch.Path, reference{})
	}
	for _, patch := range k.PatchesJson6902 {
		refs.add("patchesJson6902", patch.Path, reference{})
	}
	for _, replacement := range k.Replacements {
		refs.add("replacements", replacement.Path, reference{})
	}
	refs.add("openapi", k.OpenAPI["path"], reference{})
	for _, generator := range k.ConfigMapGenerator {
		refs.addSources("configMapGenerator", generator.KvPairSources)
	}
	for _, generator := range k.SecretGenerator {
		refs.addSources("secretGenerator", generator.KvPairSources)
	}
	return refs
}

type referenceList []reference

// add appends a reference unless target is empty.
func (l *referenceList) add(field, target string, kind reference) {
	if target != "" {
		kind.field, kind.target = field, target
		*l = append(*l, kind)
	}
}

func (l *referenceList) addAll(field string, targets []string, kind reference) {
	for _, target := range targets {
		l.add(field, target, kind)
	}
}

func (l *referenceList) addSources(field string, sources types.KvPairSources) {
	for _, target := range sources.FileSources {
		if _, file, ok := strings.Cut(target, "="); ok {
			target = file
		}
		l.add(field, target, reference{})
	}
	l.addAll(field, sources.EnvSources, reference{})
	l.add(field, sources.EnvSource, reference{})
}

func isInline(text string) bool {
	return strings.Contains(text, "\n") || strings.HasPrefix(text, "{")
}

// loadingKeys returns the fields of plugins' configurations that make kustomize load something.
func loadingKeys() []string {
	return []string{
		"path", "paths", "files", "envs", "env", "resources", "bases", "components", "targetFilePath", "argsFromFile", "valuesFile", "additionalValuesFiles",
	}
}

func isLoadingKey(key string) bool {
	// Kustomize decodes configurations without regard to case.
	return slices.ContainsFunc(loadingKeys(), func(known string) bool { return strings.EqualFold(known, key) })
}

// remoteIn returns the first remote reference below value, or "". It considers only texts under
// keys that make kustomize load something (loads), because an annotation may hold a URL.
func remoteIn(value any, loads bool) string {
	switch v := value.(type) {
	case map[string]any:
		for key, item := range v {
			if found := remoteIn(item, isLoadingKey(key)); found != "" {
				return found
			}
		}
	case []any:
		for _, item := range v {
			if found := remoteIn(item, loads); found != "" {
				return found
			}
		}
	case string:
		_, file, _ := strings.Cut(v, "=")
		if loads && (isRemote(v) || isRemote(file) || strings.Contains(v, "://")) {
			return v
		}
	}
	return ""
}
