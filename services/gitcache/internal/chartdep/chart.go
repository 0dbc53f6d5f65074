// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chartdep

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	"github.com/Masterminds/semver/v3"
	node "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// Files of a chart that list its dependencies.
const (
	ChartFile        = "Chart.yaml"
	LockFile         = "Chart.lock"
	RequirementsFile = "requirements.yaml" // of charts for Helm 2
	RequirementsLock = "requirements.lock"
)

const (
	// MaxBytes bounds each of these files.
	MaxBytes = 256 << 10
	// MaxDeclared is how many dependencies one chart may name.
	MaxDeclared = 64

	maxExpanded = 1 << 20 // bytes of a file with its aliases written out
	maxNested   = 100     // lists and maps in one another
	maxVersion  = 128
	maxURL      = 2048
	versionOne  = "v1" // the API version of charts that may have requirementsFile
)

// nameForm is the form of charts' names. A name is part of the name of a folder that Helm reads,
// which ignores folders that begin with a dot or an underscore.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,249}$`)

// ErrUnreadable means that a chart's files are not such as Helm reads. The renderer of the chart
// can report more about it.
var ErrUnreadable = errors.New("the chart's files cannot be read")

// Texts are a chart's files by their names within the chart, the existing ones of the names above.
type Texts map[string][]byte

// Chart describes a chart and its dependencies, from its files.
type Chart struct {
	APIVersion string
	Name       string
	Version    string
	// Dependencies has no nil elements.
	Dependencies []*Dependency

	// declares and locks are the names of these files; locks is empty without a lock file.
	declares, locks string
	lock            *lock
}

// Dependency is one element of a chart's dependencies, or of its lock file. Helm's digest covers
// its JSON.
type Dependency struct {
	Name         string   `json:"name"`
	Version      string   `json:"version,omitempty"`
	Repository   string   `json:"repository"`
	Condition    string   `json:"condition,omitempty"`
	Tags         []string `json:"tags,omitempty"`
	Enabled      bool     `json:"enabled,omitempty"`
	ImportValues []any    `json:"import-values,omitempty"`
	Alias        string   `json:"alias,omitempty"`
}

// metadata is the part of Chart.yaml, and of requirements.yaml, that is read.
type metadata struct {
	APIVersion   string        `json:"apiVersion"`
	Name         string        `json:"name"`
	Version      string        `json:"version"`
	Dependencies []*Dependency `json:"dependencies"`
}

// Read reads a chart's files. As for Helm, what requirements.yaml has counts instead of what
// Chart.yaml has. The error matches ErrUnreadable.
func Read(texts Texts) (Chart, error) {
	var m metadata
	c := Chart{declares: ChartFile}
	for _, name := range []string{ChartFile, RequirementsFile} {
		text, ok := texts[name]
		if !ok {
			continue
		}
		if err := decode(name, text, &m); err != nil {
			return Chart{}, err
		}
		if name == RequirementsFile && len(m.Dependencies) > 0 {
			c.declares = RequirementsFile
		}
	}
	if m.Name == "" {
		return Chart{}, fmt.Errorf("%w: %s has no name", ErrUnreadable, ChartFile)
	}
	c.APIVersion, c.Name, c.Version, c.Dependencies = m.APIVersion, m.Name, m.Version, m.Dependencies
	for _, name := range []string{LockFile, RequirementsLock} {
		text, ok := texts[name]
		if !ok {
			continue
		}
		c.lock, c.locks = &lock{}, name
		if err := decode(name, text, c.lock); err != nil {
			return Chart{}, err
		}
	}
	for _, list := range [][]*Dependency{c.Dependencies, c.locked()} {
		for _, d := range list {
			if d == nil {
				return Chart{}, fmt.Errorf("%w: a dependency is empty", ErrUnreadable)
			}
		}
	}
	return c, nil
}

// decode reads a file as Helm does, once it is known not to grow.
func decode(name string, text []byte, into any) error {
	if len(text) > MaxBytes {
		return fmt.Errorf("%w: %s is longer than %d KiB", ErrUnreadable, name, MaxBytes>>10)
	}
	var document node.Node
	err := node.Unmarshal(text, &document)
	if err == nil {
		_, err = expanded(&document, maxExpanded, maxNested)
	}
	if err == nil {
		err = yaml.Unmarshal(text, into)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrUnreadable, name, err)
	}
	return nil
}

var errGrows = errors.New("grows too large by its aliases")

// expanded returns how many of left bytes a node leaves with its aliases written out. A node may lead
// to itself.
func expanded(n *node.Node, left, depth int) (int, error) {
	if left -= len(n.Value) + 1; left < 0 || depth == 0 {
		return 0, errGrows
	}
	if n.Alias != nil {
		return expanded(n.Alias, left, depth-1)
	}
	for _, child := range n.Content {
		var err error
		if left, err = expanded(child, left, depth-1); err != nil {
			return 0, err
		}
	}
	return left, nil
}

// Wanted is a dependency that a chart lacks.
type Wanted struct {
	Name string
	// Range is the range that the chart accepts, and Version the version that its lock file pins;
	// empty for a dependency in the same repository of a chart without a lock file.
	Range, Version string
	Repository     string
	// Local is the folder of a dependency in the same repository, relative to the chart. Empty: it is
	// elsewhere.
	Local string
}

// Missing returns the dependencies that the chart names and lacks, each once: one name may come with
// several versions. packed reports whether the chart's folder charts holds a chart of that name, which
// is all that Helm asks, too. at is the chart's folder in the repository that is bundled, for errors.
// The errors are *UnsupportedError and *UnavailableError.
func (c Chart) Missing(at string, packed func(name string) bool) ([]Wanted, error) {
	var wanted []Wanted
	seen := map[Wanted]bool{}
	for i, d := range c.Dependencies {
		if packed(d.Name) {
			continue
		}
		if len(wanted) == 0 {
			if err := c.check(at); err != nil {
				return nil, err
			}
		}
		w, err := c.wanted(at, i)
		if err != nil {
			return nil, err
		}
		if !seen[w] {
			seen[w] = true
			wanted = append(wanted, w)
		}
	}
	return wanted, nil
}

// check returns an error about a chart whose dependencies cannot be packed at all.
func (c Chart) check(at string) error {
	if n := len(c.Dependencies); n > MaxDeclared {
		return c.unsupported(at, "It names %d dependencies; a chart may have %d. Pack them into charts, or split the chart.", n, MaxDeclared)
	}
	if c.lock != nil && !c.isLocked() {
		return &UnsupportedError{File: join(at, c.locks), Said: fmt.Sprintf(
			"It does not belong to the dependencies in %s. Run helm dependency update, and commit what it changes.", c.declares)}
	}
	return nil
}

// wanted returns the description of the dependency with an index.
func (c Chart) wanted(at string, i int) (Wanted, error) {
	d := c.Dependencies[i]
	w := Wanted{Name: d.Name, Range: d.Version, Repository: d.Repository}
	local, isLocal := strings.CutPrefix(d.Repository, localScheme)
	switch {
	case !nameForm.MatchString(d.Name):
		return w, c.unsupported(at, "The name of dependency %d is not a chart's: letters, digits, '.', '_' and '-', at most 250.", i+1)
	case len(d.Repository) > maxURL:
		return w, c.unsupported(at, "The repository of the dependency %s is longer than %d bytes.", d.Name, maxURL)
	case d.Repository == "":
		return w, c.unsupported(at, "The dependency %s has no repository, and the folder charts/%s is not there. Commit the folder, or name a repository.",
			d.Name, d.Name)
	case isLocal && c.lock == nil:
		w.Local = local
		return w, nil
	case c.lock == nil:
		return w, c.unsupported(at, "The dependency %s is not in charts, and there is no %s that says which version it is. "+
			"Run helm dependency update, and commit that file.", d.Name, c.lockName())
	}
	w.Local, w.Version = local, c.lock.Dependencies[i].Version
	if !isLocal {
		w.Local = ""
	}
	return w, c.checkVersion(at, w)
}

// checkVersion returns an error unless the lock file pins a version that the chart accepts.
func (c Chart) checkVersion(at string, w Wanted) error {
	if !isVersion(w.Version) {
		return &UnsupportedError{File: join(at, c.locks), Said: fmt.Sprintf(
			"The version of %s is not an exact one. Run helm dependency update, and commit what it changes.", w.Name)}
	}
	if !accepts(w.Range, w.Version) {
		return &UnsupportedError{File: join(at, c.locks), Said: fmt.Sprintf(
			"It pins %s to %s, which %s does not accept. Run helm dependency update, and commit what it changes.", w.Name, w.Version, c.declares)}
	}
	return nil
}

// Fits returns an error unless c is the chart that is wanted. It also has to have its own
// dependencies with it, where they are not packed by Leat. what names c in messages.
func (c Chart) Fits(w Wanted) error {
	switch {
	case c.Name != w.Name:
		return fmt.Errorf("it holds the chart %.100q", c.Name)
	case !isVersion(c.Version):
		return errors.New("its version is not one of Semantic Versioning")
	case w.Version != "" && !equal(c.Version, w.Version):
		return fmt.Errorf("it holds the version %s", c.Version)
	case !accepts(w.Range, c.Version):
		return fmt.Errorf("it holds the version %s, which is not within %.100q", c.Version, w.Range)
	}
	return nil
}

// Lacking returns the names of dependencies that the chart names and lacks, at most MaxDeclared.
func (c Chart) Lacking(packed func(name string) bool) []string {
	var names []string
	for _, d := range c.Dependencies {
		if !packed(d.Name) && len(names) < MaxDeclared {
			names = append(names, d.Name)
		}
	}
	return names
}

// PackedName returns the name of the folder in charts that a dependency is packed into. Its end marks
// it as an archive that was unpacked, so that the .helmignore of the chart above does not apply to it.
func (c Chart) PackedName() string { return c.Name + "-" + c.Version + ".tgz.unpacked" }

// IsPackedAs reports whether a file in charts is an archive of the chart with that name, by the name
// that Helm gives to archives.
func IsPackedAs(file, name string) bool {
	rest, hasName := strings.CutPrefix(file, name+"-")
	version, isArchive := strings.CutSuffix(rest, ".tgz")
	return hasName && isArchive && isVersion(version)
}

// DeclaredIn returns the path of the file that names the dependencies of the chart at a folder.
func (c Chart) DeclaredIn(at string) string { return join(at, c.declares) }

func (c Chart) lockName() string {
	if c.APIVersion == versionOne {
		return RequirementsLock
	}
	return LockFile
}

func (c Chart) unsupported(at, format string, args ...any) error {
	return &UnsupportedError{File: c.DeclaredIn(at), Said: fmt.Sprintf(format, args...)}
}

func join(folder, name string) string { return strings.TrimPrefix(folder+"/"+name, "/") }

// isVersion reports whether text is an exact version. Its letters are such as names of files have.
func isVersion(text string) bool {
	if len(text) > maxVersion {
		return false
	}
	_, err := semver.NewVersion(text)
	return err == nil
}

// accepts reports whether a range holds a version, as Helm decides it when it renders.
func accepts(within, version string) bool {
	if len(within) > maxVersion {
		return false
	}
	constraint, err := semver.NewConstraint(within)
	if err != nil {
		return false
	}
	v, err := semver.NewVersion(version)
	return err == nil && constraint.Check(v)
}

// equal reports whether two texts are the same version.
func equal(a, b string) bool {
	x, errX := semver.NewVersion(a)
	y, errY := semver.NewVersion(b)
	return errX == nil && errY == nil && x.Equal(y) && x.Metadata() == y.Metadata()
}
