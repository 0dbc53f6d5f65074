// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"strings"

	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	typev1 "github.com/leatdev/leat/gen/go/leat/type/v1"
	"github.com/leatdev/leat/internal/contract/digest"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/artifact"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
	"github.com/leatdev/leat/services/gitcache/internal/selection"
	"github.com/leatdev/leat/services/gitcache/internal/snapshot"
)

var (
	shortForm = regexp.MustCompile(`^[0-9a-f]{7,64}$`)
	chartForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,249}$`)
)

const (
	maxRef   = 1024
	maxRange = 256
)

// ParseSelector reads a ref that a request holds in the given field.
func ParseSelector(field string, ref *typev1.GitRef) (mirror.Selector, error) {
	var s mirror.Selector
	switch r := ref.GetSelector().(type) {
	case *typev1.GitRef_Branch:
		s, field = mirror.Selector{Kind: mirror.SelectBranch, Value: r.Branch}, field+".branch"
	case *typev1.GitRef_Tag:
		s, field = mirror.Selector{Kind: mirror.SelectTag, Value: r.Tag}, field+".tag"
	case *typev1.GitRef_Commit:
		if !shortForm.MatchString(r.Commit) {
			return s, rpcerr.Field(
				field+".commit",
				"It must be a commit id: 7 to 40 lower-case hexadecimal digits, or up to 64 of a digest or in a SHA-256 repository.",
			)
		}
		return mirror.Selector{Kind: mirror.SelectCommit, Value: r.Commit}, nil
	case *typev1.GitRef_Semver:
		if err := mirror.CheckRange(r.Semver); err != nil || len(r.Semver) > maxRange {
			return s, rpcerr.Field(
				field+".semver", "It must be a range of versions, such as ~1.4, >=2 <3 or 1.x, of at most 256 bytes.",
			)
		}
		return mirror.Selector{Kind: mirror.SelectSemver, Value: r.Semver}, nil
	case *typev1.GitRef_Name:
		s, field = mirror.Selector{Kind: mirror.SelectName, Value: r.Name}, field+".name"
		if r.Name != "HEAD" && !strings.HasPrefix(r.Name, mirror.BranchPrefix) && !strings.HasPrefix(
			r.Name, mirror.TagPrefix,
		) {
			return s, rpcerr.Field(field, "It must be HEAD, or begin with refs/heads/ or refs/tags/.")
		}
	default:
		return s, nil
	}
	if s.Value == "" || len(s.Value) > maxRef || strings.ContainsFunc(
		s.Value, func(r rune) bool { return r <= ' ' || r == 0x7f },
	) {
		return s, rpcerr.Field(field, "It must be 1 to 1024 bytes without white space and control characters.")
	}
	return s, nil
}

// Source is a request's source after checking.
type Source struct {
	Selector  mirror.Selector
	Selection *selection.Selection
	Chart     string
	Layer     artifact.Layer
}

// ParseSource checks a request's source.
func ParseSource(s *typev1.Source) (Source, error) {
	selector, err := ParseSelector("source.ref", s.GetRef())
	if err != nil {
		return Source{}, err
	}
	selected, err := parseSelection(s)
	if err != nil {
		return Source{}, err
	}
	src := Source{Selector: selector, Selection: selected}
	src.Chart, src.Layer, err = parseArtifact(s)
	return src, err
}

// parseArtifact reads which artifact of a repository a source names. Whether the repository has
// artifacts at all is judged by [Source.At].
func parseArtifact(s *typev1.Source) (chart string, layer artifact.Layer, err error) {
	chart = s.GetChart()
	if chart != "" && !chartForm.MatchString(chart) {
		return "", layer, rpcerr.Field(
			"source.chart", "It must be a chart's name: letters, digits, '.', '_' and '-', at most 250.",
		)
	}
	layer = artifact.Layer{
		MediaType: s.GetLayer().GetMediaType(), Copy: s.GetLayer().GetCopy(), Files: s.GetLayer().GetFiles(),
	}
	if problem := layer.Problem(); problem != "" {
		return "", layer, rpcerr.Field("source.layer", problem)
	}
	return chart, layer, nil
}

// At returns the source's selector for the repository that the source names.
func (s Source) At(def mirror.Definition) (mirror.Selector, error) {
	if err := checkArtifact(def, s.Chart, s.Layer); err != nil {
		return mirror.Selector{}, err
	}
	return Within(def, s.Chart, s.Selector), nil
}

// checkArtifact refuses a chart where the repository has none, and its absence where it needs one.
func checkArtifact(def mirror.Definition, chart string, layer artifact.Layer) error {
	switch {
	case def.Type == upstream.TypeHelm && chart == "":
		return rpcerr.Field(
			"source.chart", fmt.Sprintf("It is required: %q is a Helm repository, which holds many charts.", def.Name),
		)
	case def.Type != upstream.TypeHelm && chart != "":
		return rpcerr.Field("source.chart", fmt.Sprintf("It must be empty: %q is not a Helm repository.", def.Name))
	case def.Type != upstream.TypeOCI && layer != artifact.Layer{}:
		return rpcerr.Field("source.layer", fmt.Sprintf("It must be empty: %q is not an OCI repository.", def.Name))
	}
	return nil
}

// Within returns a selector for the part of a repository that it reads.
func Within(def mirror.Definition, chart string, s mirror.Selector) mirror.Selector {
	switch def.Type {
	case upstream.TypeHelm:
		s.Within = mirror.ChartPrefix(chart)
	case upstream.TypeOCI:
		s.Within = mirror.TagPrefix
	case upstream.TypeGit:
	}
	return s
}

// ContentID returns the commit by which a package snapshot knows what a commit of a repository
// delivers.
func ContentID(def mirror.Definition, commit string, layer artifact.Layer) string {
	if !def.Type.IsArtifacts() {
		return commit
	}
	return artifact.ID{Digest: commit, Layer: layer}.String()
}

func parseSelection(s *typev1.Source) (*selection.Selection, error) {
	selected, err := selection.New(selection.Spec{
		Path: s.GetPath(), Root: s.GetRoot(), Folders: s.GetFolders(), Files: s.GetFiles(),
		Include: s.GetInclude(), Exclude: s.GetExclude(),
	})
	if bad, ok := errors.AsType[*selection.FieldError](err); ok {
		return nil, rpcerr.Field("source."+bad.Field, bad.Reason)
	}
	return selected, err
}

// ParseBundle reads which bundle is asked for, and what it can be built from.
func ParseBundle(req *gitcachev1.DownloadBundleRequest, def mirror.Definition) (digest.Digest, snapshot.Folder, error) {
	d, err := digest.Parse(req.GetDigest())
	if err != nil {
		return d, snapshot.Folder{}, rpcerr.Field("digest", "It must be sha256: and 64 lower-case hexadecimal digits.")
	}
	commit := req.GetCommit()
	if commit != "" && !pack.IsName(commit) {
		return d, snapshot.Folder{}, rpcerr.Field(
			"commit", "It must be a full commit id: 40 lower-case hexadecimal digits, or 64 in a SHA-256 repository.",
		)
	}
	selected, err := parseBundled(req)
	if err != nil {
		return d, snapshot.Folder{}, err
	}
	chart, layer, err := parseArtifact(req.GetSource())
	if err != nil {
		return d, snapshot.Folder{}, err
	}
	if commit != "" {
		if err := checkArtifact(def, cmp.Or(chart, chartOf(def)), layer); err != nil {
			return d, snapshot.Folder{}, err
		}
		commit = ContentID(def, commit, layer)
	}
	return d, snapshot.Folder{
		UID: def.UID, Commit: commit, Selection: selected,
		CompletesCharts: !def.Type.IsArtifacts(), ChartRepositories: def.ChartRepositories,
	}, nil
}

// chartOf stands in for a chart that a request for a bundle does not name: the digest of its archive
// is enough.
func chartOf(def mirror.Definition) string {
	if def.Type == upstream.TypeHelm {
		return "any"
	}
	return ""
}

// parseBundled reads what of its commit a bundle holds.
func parseBundled(req *gitcachev1.DownloadBundleRequest) (*selection.Selection, error) {
	if req.GetSource() != nil {
		if req.GetPath() != "" {
			return nil, rpcerr.Field("path", "It must be empty where a source is given.")
		}
		return parseSelection(req.GetSource())
	}
	selected, err := selection.New(selection.Spec{Path: req.GetPath()})
	if bad, ok := errors.AsType[*selection.FieldError](err); ok {
		return nil, rpcerr.Field(bad.Field, bad.Reason)
	}
	return selected, err
}
