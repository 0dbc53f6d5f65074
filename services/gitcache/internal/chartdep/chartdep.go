// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package chartdep knows the dependencies of charts that lie in Git: which ones a chart lacks, which
// versions its lock file pins, and which mirrored artifact each of them is.
//
// Everything that it reads was written by committers. Its promises:
//
//   - The lock file is obeyed as helm dependency build obeys it: by Helm's own digest over both
//     files, and by the range of every dependency. A version is never chosen here.
//   - A dependency comes from a repository that the definition of the Git repository lists, and from
//     no other. An error names nothing of repositories that are not listed.
//   - A name or version that could lead out of the folder it is packed into is an error, as are more
//     dependencies than MaxDeclared, and YAML that grows by its aliases.
//
// Reading and judging are pure functions of the files (chart.go, lock.go, address.go). A [Finder]
// searches mirrors; it has them pinned, copied and refreshed, but fetches no artifact itself.
package chartdep

import (
	"fmt"
	"net/url"

	"github.com/leatdev/leat/internal/contract/upstream"
)

// Need is one dependency that a chart lacks, at the version that its lock file pins. It is a
// comparable value.
type Need struct {
	// Root is the UID of the repository that is bundled, and Allowed are the names of the
	// repositories that its charts may take dependencies from.
	Root    string
	Allowed upstream.List
	// File is the path of the file that names the dependency, in the repository that is bundled.
	File string
	Name string
	// Version is an exact version, as the dependency's repository spells it.
	Version string
	// Repository is the dependency's URL or alias, as File has it.
	Repository string
}

// Key returns the need without the file: needs of several charts with one key are one artifact.
func (n Need) Key() Need {
	n.File = ""
	return n
}

// Artifact is the found artifact of a [Need].
type Artifact struct {
	UID string // of the repository that mirrors it
	ID  string // the text of an artifact.ID
}

// UnsupportedError reports that a chart's own files keep its dependencies from being packed. Only a
// push helps.
type UnsupportedError struct {
	File string // path in the repository that is bundled
	Said string // a sentence or two on why, and what to do
}

// Error implements error.
func (e *UnsupportedError) Error() string { return fmt.Sprintf("%q: %s", e.File, e.Said) }

// UnavailableError reports that a dependency cannot be had until something is changed: by a push, in
// its repository, or in the definition of a repository.
type UnavailableError struct {
	File, Name, Version string
	// URL is the dependency's repository, as File has it.
	URL  string
	Said string // a sentence or two on why, and what to do
}

// Error implements error.
func (e *UnavailableError) Error() string {
	return fmt.Sprintf("dependency %s %s of %q from %q is not available: %s", e.Name, e.Version, e.File, e.URL, e.Said)
}

// FetchError reports that a dependency could not be had now, and why. It may heal without a change.
type FetchError struct {
	File, Name, Version, URL string
	Err                      error
}

// Error implements error.
func (e *FetchError) Error() string {
	return fmt.Sprintf("dependency %s %s of %q from %q: %v", e.Name, e.Version, e.File, e.URL, e.Err)
}

// Unwrap returns why.
func (e *FetchError) Unwrap() error { return e.Err }

// Unavailable returns an *UnavailableError about the need.
func (n Need) Unavailable(format string, args ...any) error {
	return &UnavailableError{File: n.File, Name: n.Name, Version: n.Version, URL: n.shownURL(), Said: fmt.Sprintf(format, args...)}
}

// Failed returns a *FetchError about the need.
func (n Need) Failed(err error) error {
	return &FetchError{File: n.File, Name: n.Name, Version: n.Version, URL: n.shownURL(), Err: err}
}

// shownURL is the dependency's repository for people; a password in it is masked.
func (n Need) shownURL() string {
	if u, err := url.Parse(n.Repository); err == nil && u.User != nil {
		return u.Redacted()
	}
	return n.Repository
}
