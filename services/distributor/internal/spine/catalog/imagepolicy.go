// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package catalog

import (
	"cmp"
	"context"
	"errors"
	"reflect"

	"github.com/leatdev/leat/internal/contract/objectname"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/services/distributor/internal/spine/check"
	"github.com/leatdev/leat/services/distributor/internal/spine/imagetag"
)

const (
	// maxImagePolicies bounds the image policies of a project: one replica looks at all of them.
	maxImagePolicies = 256
	// imageBranches begins the names of the branches of pull requests.
	imageBranches = "leat/image/"
)

// ImagePolicy selects a tag of an image, and writes it into the lines of a Git repository that name the
// policy.
type ImagePolicy struct {
	Metadata
	Spec ImagePolicySpec
}

// ImagePolicySpec sets which tag is selected, and where it is written. Its JSON is its stored form.
type ImagePolicySpec struct {
	Description string `json:"description,omitempty"`
	Suspended   bool   `json:"suspended,omitempty"`
	// Repository is the path of an OCI repository.
	Repository string             `json:"repository"`
	Select     imagetag.Selection `json:"select,omitzero"`
	PinDigest  bool               `json:"pinDigest,omitempty"`
	// Write is nil if the policy only shows what it selects.
	Write *ImageWrite `json:"write,omitempty"`
}

// ImageWrite is where a policy writes.
type ImageWrite struct {
	// Repository is the path of a Git repository of the policy's project.
	Repository string `json:"repository"`
	// Branch is its short name.
	Branch string `json:"branch"`
	// Path is a folder; empty: the whole repository.
	Path string `json:"path,omitempty"`
	// PullRequest writes to a branch of the policy's own, and opens a pull request from it.
	PullRequest bool `json:"pullRequest,omitempty"`
}

// Key implements Object.
func (p *ImagePolicy) Key() Key { return Key{KindImagePolicy, p.Name} }

func (p *ImagePolicy) sameSpec(other Object) bool {
	o, ok := other.(*ImagePolicy)
	return ok && reflect.DeepEqual(p.Spec, o.Spec)
}

func (p *ImagePolicy) clone() Object {
	c := *p
	if p.Spec.Write != nil {
		c.Spec.Write = new(*p.Spec.Write)
	}
	return &c
}

// SpecAt implements Plain.
func (p *ImagePolicy) SpecAt() any { return &p.Spec }

func (p *ImagePolicy) normalize() {
	p.Spec.Select.Order = cmp.Or(p.Spec.Select.Order, imagetag.Semver)
	if p.Spec.Write != nil {
		p.Spec.Write.Path = p.Spec.WriteSource().Normal().Path
	}
}

func (p *ImagePolicy) settle(Object) error { return nil }
func (p *ImagePolicy) reachable() error    { return nil }

// checkReferences implements Object: the image is of an OCI repository that the project may use, and is written to a Git
// repository.
func (p *ImagePolicy) checkReferences(ctx context.Context, tx Reader) error {
	own, err := ownProject(ctx, tx, p.Name)
	if err != nil {
		return err
	}
	if err := referredOf(ctx, tx, own, p.Spec.Repository, "spec.repository", upstream.TypeOCI, "an OCI repository"); err != nil || p.Spec.Write == nil {
		return err
	}
	return referredOf(ctx, tx, own, p.Spec.Write.Repository, "spec.write.repository", upstream.TypeGit, "a Git repository")
}

// referredOf returns an error unless the field at path may name a repository, which is of that type.
func referredOf(ctx context.Context, tx Reader, own *Project, name, path string, want upstream.Type, words string) error {
	object, err := own.referred(ctx, tx, Key{KindRepository, name}, path)
	if err != nil {
		return err
	}
	if repository, ok := object.(*Repository); ok && cmp.Or(repository.Spec.Type, upstream.TypeGit) != want {
		return fielderr.New(path, "%q is not %s", objectname.Display(name), words)
	}
	return nil
}

func (p *ImagePolicy) checkSettled(context.Context, Reader) error { return nil }

func (p *ImagePolicy) room(ProjectQuotas) Room {
	return Room{Most: maxImagePolicies, Words: "image policies"}
}

func (p *ImagePolicy) secrets() map[string]any    { return nil }
func (p *ImagePolicy) changesRelease(Object) bool { return false }

// Place implements Object.
func (p *ImagePolicy) Place() Place { return Place{Project: objectname.Project(p.Name)} }

// Mark returns the name by which lines in Git name the policy: PROJECT/NAME, with the project even if it is default.
func (p *ImagePolicy) Mark() string {
	project, name := objectname.Split(p.Name)
	return project + "/" + name
}

// Branch returns the branch from which the policy's pull requests are.
func (p *ImagePolicy) Branch() string { return imageBranches + p.Mark() }

// Names reports whether the policy names a repository, to read tags or to write.
func (p *ImagePolicy) Names(repository string) bool {
	return p.Spec.Repository == repository || p.Spec.WritesTo(repository)
}

// WritesTo reports whether the policy writes to a repository.
func (s ImagePolicySpec) WritesTo(repository string) bool {
	return s.Write != nil && s.Write.Repository == repository
}

// WriteSource returns the source that holds the files which the policy may change. Write is set.
func (s ImagePolicySpec) WriteSource() Source {
	return Source{Repository: s.Write.Repository, Ref: Ref{Kind: RefBranch, Value: s.Write.Branch}, Path: s.Write.Path}
}

// Validate implements Object.
func (p *ImagePolicy) Validate() error {
	s := p.Spec
	if s.Repository == "" {
		return cmp.Or(p.validate(KindImagePolicy), fielderr.New("spec.repository", "is required"))
	}
	return cmp.Or(
		p.validate(KindImagePolicy),
		check.Description(s.Description),
		objectname.Validate("spec.repository", s.Repository),
		s.Select.Validate("spec.select"),
		p.validateWrite(),
	)
}

// validateWrite checks where the policy writes. The repository has to be of the same project: a project that shares a repository
// lets others read it, not write.
func (p *ImagePolicy) validateWrite() error {
	write := p.Spec.Write
	switch {
	case write == nil:
		return nil
	case write.Repository == "":
		return fielderr.New("spec.write.repository", "is required")
	case objectname.Project(write.Repository) != objectname.Project(p.Name):
		return fielderr.New("spec.write.repository", "%q is of another project; an image policy writes to a repository of its own", objectname.Display(write.Repository))
	case write.Branch == "":
		return fielderr.New("spec.write.branch", "is required")
	}
	if err := p.Spec.WriteSource().Validate("spec.write"); err != nil {
		if e, ok := errors.AsType[*fielderr.Error](err); ok && e.Path == "spec.write.ref.branch" {
			return fielderr.New("spec.write.branch", "%s", e.Message)
		}
		return err
	}
	return nil
}
