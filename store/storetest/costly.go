package storetest

// Costly names the tests that take most of the suite's time: races, large values, and copies of much. Set
// [Options.Without] to it where a store is slow, or is opened in another way than one that passes in full. Run the suite
// without it as well.
var Costly = []string{
	"TwoWriters/OneCreatorWins", "TwoWriters/OneCommitPerVersion", "TwoWriters/OneBeginWins", "TwoWriters/OneBeginCreates",
	"TwoWriters/OneWorkerTakesOver", "TwoWriters/OneBranchWins", "TwoWriters/OneAnswerWins", "TwoWriters/OneTakesATurn",
	"TwoWriters/ZombieIsFenced", "TwoWriters/SnapshotIsOnePointInTime", "Removal/EarlierLifeIsFenced", "Removal/OneRemoverWins",
	"Removal/RemoveOrBegin", "Expiry/GoneAtItsTime", "Expiry/LooksAndCommits", "Expiry/BeginOrExpire",
	"Hostile/LargeMessages", "Call/OddTexts", "Limits/CommitRefuses", "Message/TaintOnTheRow", "List/FiltersAreNotPatterns",
	"History/2", "History/3", "Checkpoint/PruneKeepsRestoresWorking", "State/AtEachCheckpoint",
	"State/OperationThatDoesNotFit", "Import/InPages", "Import/RewindToEachCheckpoint", "Import/BranchFromEachCheckpoint",
	"Import/ClockSetBack", "Import/WhatIsThereStays", "Import/ChangedMeanwhile", "Import/Damaged", "Import/SourceFails",
	"Purge/OnePurgerWins", "Restore/OneRestorerWins", "Import/Again", "RewindRun/Refusals", "RewindRun/AfterManyChanges",
	"Archive/EveryFilter", "List/PageSizes", "Checkpoint/PageSizes", "EventsOfCommit/BesideRun", "Branch/AfterAPrune",
	"Blob/ExportedWithTheirTree", "Blob/Large", "Blob/CopiedWithTheirTree",
	"Import/CopyTrees", "Import/CopyTreesKeepsTheOthers", "Import/CopyTreesIsCancelled", "Import/CopyTreesComparesCopies",
}
