// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"errors"
	"strings"

	errorsv1 "github.com/leatdev/leat/gen/go/leat/errors/v1"
	gitcachev1 "github.com/leatdev/leat/gen/go/leat/gitcache/v1"
	"github.com/leatdev/leat/internal/contract/reason"
	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/internal/kit/fielderr"
	"github.com/leatdev/leat/internal/runtime/rpcerr"
	"github.com/leatdev/leat/services/gitcache/internal/commitpack"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
	"github.com/leatdev/leat/services/gitcache/internal/pack"
	"github.com/leatdev/leat/services/gitcache/internal/pushing"
)

// Bounds of a push.
const (
	maxPushFiles    = 1000
	maxPushBytes    = 6 << 20 // a message has at most 8 MiB
	maxPushPath     = 4096
	maxMessageBytes = 4 << 10
	maxTitleBytes   = 250
	maxBodyBytes    = 16 << 10
)

// ParsePush checks a request to push, and returns it. Whether the repository allows it is not
// checked.
func ParsePush(req *gitcachev1.PushCommitRequest) (pushing.Request, error) {
	parsed := pushing.Request{Branch: req.GetBranch(), Base: req.GetBaseCommit(), Message: req.GetMessage()}
	switch message := req.GetMessage(); {
	case !upstream.ValidBranch(req.GetBranch()):
		return parsed, rpcerr.Field("branch", "It is not the name of a branch, without refs/heads/.")
	case !pack.IsName(req.GetBaseCommit()):
		return parsed, rpcerr.Field("base_commit", "It is not a whole commit id.")
	case strings.TrimSpace(message) == "" || len(message) > maxMessageBytes || strings.ContainsRune(message, 0):
		return parsed, rpcerr.Field("message", "It must have 1 to 4096 bytes, and no NUL byte.")
	}
	var err error
	if parsed.Files, err = parseFiles(req.GetFiles()); err != nil {
		return parsed, err
	}
	if pull := req.GetPullRequest(); pull != nil {
		parsed.Pull = &pushing.PullRequest{Branch: pull.GetBranch(), Title: pull.GetTitle(), Body: pull.GetBody()}
		err = checkPull(parsed.Pull)
	}
	return parsed, err
}

func checkPull(pull *pushing.PullRequest) error {
	switch {
	case !upstream.ValidBranch(pull.Branch):
		return rpcerr.Field("pull_request.branch", "It is not the name of a branch, without refs/heads/.")
	case strings.TrimSpace(pull.Title) == "" || len(pull.Title) > maxTitleBytes || strings.ContainsAny(pull.Title, "\r\n\x00"):
		return rpcerr.Field("pull_request.title", "It must have 1 to 250 bytes on one line.")
	case len(pull.Body) > maxBodyBytes || strings.ContainsRune(pull.Body, 0):
		return rpcerr.Field("pull_request.body", "It must have at most 16 KiB, and no NUL byte.")
	}
	return nil
}

// parseFiles returns the new contents by path.
func parseFiles(files []*gitcachev1.ChangedFile) (map[string][]byte, error) {
	if len(files) == 0 || len(files) > maxPushFiles {
		return nil, rpcerr.Field("files", "It must name 1 to 1000 files.")
	}
	parsed, left := make(map[string][]byte, len(files)), maxPushBytes
	for i, f := range files {
		field := fielderr.Indexed("files", i)
		if len(f.GetPath()) > maxPushPath {
			return nil, rpcerr.Field(field+".path", "It has more than 4096 bytes.")
		}
		if bad, ok := errors.AsType[*commitpack.FileError](commitpack.CheckPath(f.GetPath())); ok {
			return nil, rpcerr.Field(field+".path", "It "+bad.Reason+".")
		}
		if _, isTwice := parsed[f.GetPath()]; isTwice {
			return nil, rpcerr.Field(field+".path", "It is named twice.")
		}
		if left -= len(f.GetContent()); left < 0 {
			return nil, rpcerr.Field("files", "They have more than 6 MiB together.")
		}
		parsed[f.GetPath()] = f.GetContent()
	}
	return parsed, nil
}

// PushError maps an error of a push.
func PushError(err error, repository string) error {
	if bad, ok := errors.AsType[*commitpack.FileError](err); ok {
		return rpcerr.Field("files", Text(bad.Error())+" in base_commit.")
	}
	failed, ok := errors.AsType[*mirror.UpstreamError](err)
	if !ok {
		return Error(err, repository)
	}
	options := []rpcerr.Option{rpcerr.With("repository", repository)}
	message := Text(failed.Message)
	switch failed.Reason {
	case reason.PushOutdated, reason.PushRefused, reason.PushNotAllowed:
	case reason.PullRequestFailed:
		options = append(options, rpcerr.RetryAfter(max(failed.RetryAfter, retryUpstream)))
	default:
		message = "The commit was not pushed. " + message
		options = append(options, rpcerr.RetryAfter(max(failed.RetryAfter, retryUpstream)))
	}
	return rpcerr.New(codeOf(failed.Reason), errorsv1.Reason(failed.Reason), message, options...)
}
