// Package skill gives agents skills in the format of agentskills.io: folders with a SKILL.md, whose instructions the
// model loads when a task needs them. A [Set] is a toolset: put it into Agent.Toolsets.
//
//	skills, err := skill.New([]skill.Provider{skill.FS(files)}, nil)
//	agent := &cairn.Agent{Name: "support", Model: model, Toolsets: []cairn.Toolset{skills}}
//
// The model reads a catalogue of names and descriptions, in a hidden message at the beginning of a session, and loads
// the instructions of one skill with [LoadTool]. It reads the files of a skill with [ReadTool]. The catalogue is part
// of the transcript, so that every process that drives the session has the same one, and requests keep their cached
// prefix. If the skills change, the next turn has a new catalogue.
//
// Skills come from Go code ([Define]), from any file system such as an embed.FS ([FS]), and from the folders that other
// agents use ([Dirs]). Your own [Provider] can load them from elsewhere. A sub-agent has only the skills of its own
// definition.
package skill
