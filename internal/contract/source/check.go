// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package source

import (
	"cmp"
	"mime"
	"path"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/kit/ignore"
)

const (
	maxMountBytes = 1024
	// maxChartBytes is Helm's own limit.
	maxChartBytes = 250
	maxMediaType  = 255 // RFC 6838, section 4.2: 127 bytes on each side of the slash
)

// chartName follows what Helm accepts as a chart's name. It is a part of references' names.
var chartName = regexp.MustCompile(`^[A-Za-z0-9]([-A-Za-z0-9._]*[A-Za-z0-9])?$`)

// maxSelected is how many elements each list of a source may have. gitcache has the same limit.
const maxSelected = 100

// ignoreFile is the name of ignore files, which are never bundled.
const ignoreFile = ".leatignore"

// Limits of single fields.
const (
	maxFolderBytes = 4096
	maxRefBytes    = 1024
	maxRangeBytes  = 256
)

var commitName = regexp.MustCompile(`^[0-9a-f]{7,64}$`)

// Validate checks everything that does not depend on the repository. The error is a *fielderr.Error about a field in field.
func (s Source) Validate(field string) error {
	err := cmp.Or(
		objectname.Validate(field+".repository", s.Repository),
		s.Ref.validate(field+".ref"),
		validateFolder(field+".path", s.Path),
		validateFolder(field+".root", s.Root),
		validateChart(field+".chart", s.Chart),
		validateMount(field+".mount", s.Mount),
		s.Layer.validate(field+".layer"),
	)
	if err != nil {
		return err
	}
	if !inside(cleanFolder(s.Path), s.bundled()) {
		return fielderr.New(field+".root", "%q does not contain the path %q", s.Root, s.Path)
	}
	return s.validateSelection(field)
}

func (r Ref) validate(field string) error {
	if r.Kind == RefHead {
		return nil
	}
	field += "." + string(r.Kind)
	if r.Kind == RefCommit {
		if !commitName.MatchString(r.Value) {
			return fielderr.New(field, "%q is not a commit id: at least 7 lower-case hexadecimal digits", r.Value)
		}
		return nil
	}
	if r.Kind == RefSemver {
		return validateRange(field, r.Value)
	}
	if r.Kind == RefName && r.Value != "HEAD" && !strings.HasPrefix(r.Value, "refs/") {
		return fielderr.New(field, "%q is not a full reference name such as refs/heads/main", r.Value)
	}
	return validateRefName(field, r.Value)
}

func validateRange(field, text string) error {
	if len(text) > maxRangeBytes {
		return fielderr.New(field, "has %d bytes; at most %d are allowed", len(text), maxRangeBytes)
	}
	if _, err := semver.NewConstraint(text); err != nil || strings.TrimSpace(text) == "" {
		return fielderr.New(field, "%q is not a range of versions such as ~1.4, >=2 <3 or 1.x", text)
	}
	return nil
}

// validateRefName follows git-check-ref-format.
func validateRefName(field, name string) error {
	switch {
	case name == "":
		return fielderr.New(field, "is empty")
	case len(name) > maxRefBytes:
		return fielderr.New(field, "has %d bytes; at most %d are allowed", len(name), maxRefBytes)
	case strings.ContainsAny(name, " ~^:?*[\\") || strings.ContainsFunc(name, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		return fielderr.New(field, "%q holds a character that no reference name may hold", name)
	case strings.Contains(name, "..") || strings.Contains(name, "@{") || strings.Contains(name, "//") || strings.HasSuffix(name, ".") ||
		strings.HasPrefix(name, "/") || strings.HasSuffix(name, "/") || strings.HasPrefix(name, "-"):
		return fielderr.New(field, "%q is not a reference name", name)
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock") {
			return fielderr.New(field, "%q is not a reference name", name)
		}
	}
	return nil
}

func validateFolder(field, folder string) error {
	switch {
	case folder == "":
		return nil
	case len(folder) > maxFolderBytes:
		return fielderr.New(field, "has %d bytes; at most %d are allowed", len(folder), maxFolderBytes)
	case strings.HasPrefix(folder, "/"):
		return fielderr.New(field, "%q must be relative to the repository's root: leave out the leading slash", folder)
	case strings.ContainsAny(folder, "\\\x00"):
		return fielderr.New(field, "%q must use forward slashes", folder)
	case path.Clean(folder) == ".." || strings.HasPrefix(path.Clean(folder), "../"):
		return fielderr.New(field, "%q leaves the repository", folder)
	}
	return nil
}

func (s Source) validateSelection(field string) error {
	return cmp.Or(
		fielderr.Each(field+".folders", "elements", s.Folders.Items(), maxSelected, validateFolder),
		fielderr.Each(field+".files", "elements", s.Files.Items(), maxSelected, validateFile),
		fielderr.Each(field+".include", "elements", s.Include.Items(), maxSelected, validatePattern),
		fielderr.Each(field+".exclude", "elements", s.Exclude.Items(), maxSelected, validatePattern),
	)
}

func validateFile(field, file string) error {
	if err := validateFolder(field, file); err != nil {
		return err
	}
	switch {
	case cleanFolder(file) == "" || strings.HasSuffix(file, "/") || path.Base(file) == ".":
		return fielderr.New(field, "%q does not name a file", file)
	case path.Base(cleanFolder(file)) == ignoreFile:
		return fielderr.New(field, "files named %s are never bundled", ignoreFile)
	}
	return nil
}

func validatePattern(field, pattern string) error {
	if err := ignore.CheckLine(pattern); err != nil {
		return fielderr.New(field, "%q %v", pattern, err)
	}
	return nil
}

func validateChart(field, name string) error {
	switch {
	case name == "":
		return nil
	case len(name) > maxChartBytes:
		return fielderr.New(field, "has %d bytes; at most %d are allowed", len(name), maxChartBytes)
	case !chartName.MatchString(name) || strings.Contains(name, "..") || strings.HasSuffix(name, ".lock"):
		return fielderr.New(field, "%q is not a chart's name: letters, digits, '-', '_' and '.', with a letter or digit at both ends", name)
	}
	return nil
}

// validateMount accepts the one spelling of a folder inside the service's tree.
func validateMount(field, mount string) error {
	switch {
	case mount == "":
		return nil
	case len(mount) > maxMountBytes:
		return fielderr.New(field, "has %d bytes; at most %d are allowed", len(mount), maxMountBytes)
	case strings.ContainsFunc(mount, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\\' }):
		return fielderr.New(field, "%q holds a control character or a backslash", mount)
	}
	clean := path.Clean(mount)
	switch {
	case path.IsAbs(mount):
		return fielderr.New(field, "%q must be relative to the service's tree: leave out the leading slash", mount)
	case clean == ".." || strings.HasPrefix(clean, "../"):
		return fielderr.New(field, "%q leaves the service's tree", mount)
	case clean == ".":
		return fielderr.New(field, "%q is the service's tree itself; leave the field out", mount)
	case clean != mount:
		return fielderr.New(field, "write %q as %q", mount, clean)
	}
	return nil
}

func (l ArtifactLayer) validate(field string) error {
	if l.Files && (l.Copy || l.MediaType != "") {
		return fielderr.New(field+".files", "excludes media_type and copy: it takes every layer that has a title")
	}
	if l.MediaType == "" {
		return nil
	}
	kind, _, err := mime.ParseMediaType(l.MediaType)
	if err != nil || len(l.MediaType) > maxMediaType || !strings.Contains(kind, "/") {
		return fielderr.New(field+".media_type", "%q is not a media type such as application/vnd.example.layer.v1.tar+gzip", l.MediaType)
	}
	return nil
}
