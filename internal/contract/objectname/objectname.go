// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

// Package objectname names the objects of projects.
//
// People name an object by its project and its name, and refer to it as NAME in its own project and
// as PROJECT/NAME elsewhere. Inside Leat both are one text, the object's path: NAME in the project
// default, and PROJECT.NAME in every other. Names and projects are DNS labels, so a path has at
// most one dot, and two objects never share one. A path is a DNS subdomain. It can be part of the
// name of a ConfigMap, in a URL, in a host name and in the name of a file, where a slash could not.
//
// A service is named by its cluster, too: two clusters may each have a service web. Its path in the
// hub is SERVICE@CLUSTER, both parts paths, such as shop.web@kube.berlin. A cluster's own agent
// knows it by the part in front, its local path. People write NAME@CLUSTER, where CLUSTER is as in
// the service's document: a cluster of the service's own project, or PROJECT/NAME.
//
// A path has one spelling, so that it can be compared and be the key of a map: the project default
// is never written. A hub that has no other project therefore has the names that people gave.
package objectname

import (
	"regexp"
	"strings"

	"github.com/leatdev/leat/internal/kit/fielderr"
)

// Default is the project of everything that names no other. It always exists.
const Default = "default"

// MaxPath is the length of the longest path: two labels and the dot. That of a service in the hub is
// two such paths and a mark: see ServicePath.
const MaxPath = 2*MaxLabel + 1

// MaxLabel is the length of the longest name, and of the longest project.
const MaxLabel = 63

const (
	// mark separates the project from the name in a path.
	mark = "."
	// slash separates them in what people write.
	slash = "/"
	// at separates a service from its cluster.
	at = "@"
)

var label = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`)

// ValidateLabel checks that text is a DNS label (RFC 1123), as names and projects are. The error is
// a *fielderr.Error that names field.
func ValidateLabel(field, text string) error {
	switch {
	case text == "":
		return fielderr.New(field, "is required")
	case len(text) > MaxLabel:
		return fielderr.New(field, "has %d characters; at most %d are allowed", len(text), MaxLabel)
	case !label.MatchString(text):
		return fielderr.New(field, "%q is not a DNS label: use lower-case letters, digits and '-', with a letter or digit at both ends", text)
	}
	return nil
}

// Validate checks that path has the form of a path, in its one spelling. The error is a
// *fielderr.Error that names field.
func Validate(field, path string) error {
	project, name, isQualified := strings.Cut(path, mark)
	if !isQualified {
		return ValidateLabel(field, path)
	}
	if len(path) > MaxPath || project == Default || ValidateLabel(field, project) != nil || ValidateLabel(field, name) != nil {
		return fielderr.New(field, "%q is not the name of an object: write NAME, or PROJECT/NAME for one of another project", shortened(path))
	}
	return nil
}

// IsPath reports whether text has the form of a path.
func IsPath(text string) bool { return Validate("", text) == nil }

// Join returns the path of an object. An empty project is Default. Both have to be labels: see
// ValidateLabel.
func Join(project, name string) string {
	if project == "" || project == Default {
		return name
	}
	return project + mark + name
}

// Split returns the project and the name of a path. Of a service's path it leaves out the cluster.
func Split(path string) (project, name string) {
	path, _ = SplitService(path)
	project, name, isQualified := strings.Cut(path, mark)
	if !isQualified {
		return Default, path
	}
	return project, name
}

// Project returns the project of a path.
func Project(path string) string {
	project, _ := Split(path)
	return project
}

// Parse returns the path that a reference of people leads to: NAME is an object of the project of
// the reference, PROJECT/NAME one of any project. An empty reference has an empty path, so that the
// holder of the field can report that it is required. The error is a *fielderr.Error that names
// field.
func Parse(field, reference, project string) (path string, err error) {
	if reference == "" {
		return "", nil
	}
	other, name, isQualified := strings.Cut(reference, slash)
	if !isQualified {
		other, name = project, reference
	}
	if err := ValidateLabel(field, name); err != nil {
		if isQualified {
			return "", notReference(field, reference)
		}
		return "", err
	}
	if isQualified && ValidateLabel(field, other) != nil {
		return "", notReference(field, reference)
	}
	return Join(other, name), nil
}

func notReference(field, reference string) error {
	return fielderr.New(field, "%q is not a reference: write NAME, or PROJECT/NAME for an object of another project", shortened(reference))
}

// Format returns the reference that stands for a path in a project: the reverse of Parse and of
// ParseService. It is NAME for an object of that project, and PROJECT/NAME for any other.
func Format(path, project string) string {
	path, cluster := SplitService(path)
	other, name := Split(path)
	if project == "" {
		project = Default
	}
	text := name
	if path != "" && other != project {
		text = other + slash + name
	}
	if cluster != "" {
		text += at + Format(cluster, other)
	}
	return text
}

// Display returns a path as people read it without a project of their own: NAME in the project
// default, PROJECT/NAME elsewhere.
func Display(path string) string { return Format(path, Default) }

// shortened bounds what a message repeats of a text that may have any length.
func shortened(text string) string {
	if len(text) <= MaxPath {
		return text
	}
	return strings.ToValidUTF8(text[:MaxPath], "") + "…"
}
